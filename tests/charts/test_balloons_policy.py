"""The chart balloons-policy: what it renders, and what it refuses and how."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.charttools import CRD, REPOSITORY, assert_golden, ci_values, documents, refusal, rendered
from cluster.schemas import dump_crd_schemas, run_kubeconform

CHART = "balloons-policy"
EXAMPLES = ci_values(CHART)
GENERATED = sorted((REPOSITORY / "env").glob("*/values/balloons-policy.yaml"))
SPEC: dict[str, Any] = {
    "reservedResources": {"cpu": "cpuset:0"},
    "balloonTypes": [
        {"name": "slot", "preferCloseToDevices": ["/sys/devices/system/node/node0"]},
        {"name": "top", "components": [{"balloonType": "slot"}]},
    ],
}


def layout(name: str = "one", spec: dict[str, Any] | None = None, **targets: list[str]) -> dict[str, Any]:
    """One entry of ``policies``."""
    return {"name": name, "spec": SPEC if spec is None else spec, **targets}


@pytest.fixture(scope="module")
def policy_schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CRD's schema, for kubeconform."""
    directory = tmp_path_factory.mktemp("schemas")
    dump_crd_schemas(yaml.safe_load(CRD.read_text(encoding="utf-8")), directory)
    return directory


def test_there_are_values_to_render() -> None:
    assert len(EXAMPLES) >= 2
    assert GENERATED


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_golden(helm: Path, path: Path) -> None:
    assert_golden(f"{CHART}/{path.stem.removesuffix('-values')}.yaml", rendered(helm, CHART, path))


@pytest.mark.parametrize("path", [*EXAMPLES, *GENERATED], ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_kubeconform(helm: Path, kubeconform: Path, policy_schemas: Path, path: Path) -> None:
    text = rendered(helm, CHART, path)
    done = run_kubeconform(kubeconform, text, policy_schemas)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Valid: {len(documents(text))}," in done.stdout


@pytest.mark.parametrize("path", [*EXAMPLES, *GENERATED], ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_specs_are_those_of_the_values(helm: Path, path: Path) -> None:
    """Except for allocatorPriority, which the API server would fill in."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    wanted = {"default": values["default"]} if values.get("default") else {}
    for entry in values["policies"]:
        wanted |= {f"group.{name}": entry["spec"] for name in entry.get("groups", [])}
        wanted |= {f"node.{name}": entry["spec"] for name in entry.get("nodes", [])}
    for spec in wanted.values():
        for item in spec.get("balloonTypes", []):
            item.setdefault("allocatorPriority", "high")
    made = {item["metadata"]["name"]: item["spec"] for item in documents(rendered(helm, CHART, path))}
    assert made == wanted
    # 1.0 == 1 in Python, not in the text.
    assert json.dumps(made, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def test_nothing_by_default(helm: Path) -> None:
    assert rendered(helm, CHART).strip() == ""
    assert rendered(helm, CHART, {"enabled": False, "policies": [layout(nodes=["w1"])]}).strip() == ""
    assert rendered(helm, CHART, {"policies": [layout()]}).strip() == ""


@pytest.mark.parametrize("empty", [None, {}], ids=["null", "empty"])
def test_no_default_policy(helm: Path, empty: object) -> None:
    made = documents(rendered(helm, CHART, {"default": empty, "policies": [layout(nodes=["w1"])]}))
    assert [item["metadata"]["name"] for item in made] == ["node.w1"]


def test_namespace(helm: Path) -> None:
    assert documents(rendered(helm, CHART, {"default": SPEC}))[0]["metadata"]["namespace"] == "kube-system"
    (elsewhere,) = documents(rendered(helm, CHART, {"default": SPEC, "namespace": "numa"}))
    assert elsewhere["metadata"]["namespace"] == "numa"
    (digits,) = documents(rendered(helm, CHART, {"default": SPEC, "namespace": "123"}))
    assert digits["metadata"]["namespace"] == "123"


def test_labels_of_the_values_do_not_replace_the_charts(helm: Path) -> None:
    values = {"default": SPEC, "commonLabels": {"app.kubernetes.io/name": "mine", "team": "platform"}}
    (policy,) = documents(rendered(helm, CHART, values))
    assert policy["metadata"]["labels"] == {
        "app.kubernetes.io/instance": "test",
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/name": "balloons-policy",
        "helm.sh/chart": "balloons-policy-0.1.0",
        "team": "platform",
    }
    assert "annotations" not in policy["metadata"]


def test_whole_numbers_stay_whole(helm: Path) -> None:
    spec = {**SPEC, "balloonTypes": [{"name": "many", "maxBalloons": 1048576, "maxCPUs": 100000000, "minCPUs": 0}]}
    text = rendered(helm, CHART, {"default": spec})
    assert "maxBalloons: 1048576\n" in text
    assert "maxCPUs: 100000000\n" in text
    assert "minCPUs: 0\n" in text


def test_same_output_every_time(helm: Path) -> None:
    path = EXAMPLES[0]
    assert len({rendered(helm, CHART, path) for _ in range(5)}) == 1
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    turned = dict(reversed(values.items()))
    assert rendered(helm, CHART, turned) == rendered(helm, CHART, path)


def test_longest_names(helm: Path) -> None:
    made = documents(rendered(helm, CHART, {"policies": [layout(nodes=["n" * 248], groups=["g" * 247])]}))
    assert [len(item["metadata"]["name"]) for item in made] == [253, 253]


def changed(**fields: Any) -> dict[str, Any]:
    """Values whose first balloon type has other fields."""
    spec = deepcopy(SPEC)
    spec["balloonTypes"][0] |= fields
    return {"policies": [layout(nodes=["w1"], spec=spec)]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"policies": [layout("a", nodes=["w1", "w2"]), layout("b", nodes=["w2"])]},
            'policies: node "w2" is in a and again in b; it can have one policy',
        ),
        (
            {"policies": [layout("a", groups=["xeon"]), layout("b", groups=["xeon"])]},
            'policies: group "xeon" is in a and again in b',
        ),
        ({"policies": [layout("a", nodes=["w1", "w1"])]}, 'node "w1" is in a and again in a'),
        ({"policies": [layout(nodes=["n" * 249])]}, "has 254 characters; Kubernetes allows 253"),
        ({"policies": [layout(groups=["g" * 248])]}, "has 254 characters; Kubernetes allows 253"),
        (changed(name="top"), 'policies: one: there are two balloonTypes named "top"'),
        (changed(name="other"), 'balloonType "slot" of the components of "top" is not among balloonTypes'),
        (changed(loads=["avx"]), 'load "avx" of "slot" is not among loadClasses'),
        (
            {"default": {**SPEC, "balloonTypes": [{"name": "a", "components": [{"balloonType": "b"}]}]}},
            'default: balloonType "b" of the components of "a" is not among balloonTypes',
        ),
    ],
)
def test_refused_by_the_templates(helm: Path, values: dict[str, Any], message: str) -> None:
    assert message in refusal(helm, CHART, values)


@pytest.mark.parametrize(
    ("values", "where", "message"),
    [
        (changed(minCpus=4), "/policies/0/spec/balloonTypes/0", "minCpus"),
        (changed(minCPUs="4"), "/policies/0/spec/balloonTypes/0/minCPUs", "want integer"),
        (changed(minCPUs=-1), "/policies/0/spec/balloonTypes/0/minCPUs", "minimum"),
        (changed(minCPUs=1.5), "/policies/0/spec/balloonTypes/0/minCPUs", "want integer"),
        (changed(preferCoreType="fast"), "/policies/0/spec/balloonTypes/0/preferCoreType", "'efficient'"),
        (changed(components=[{"balloonTypes": "top"}]), "/policies/0/spec/balloonTypes/0/components/0", "balloonType"),
        ({"policies": [layout(spec={})]}, "/policies/0/spec", "reservedResources"),
        ({"policies": [layout(spec={"reservedResources": {}})]}, "/policies/0/spec/reservedResources", "cpu"),
        ({"policies": [layout(node=["w1"])]}, "/policies/0", "'node'"),
        ({"policies": [layout(nodes=["W1"])]}, "/policies/0/nodes/0", "pattern"),
        ({"policies": [layout(groups=["-x"])]}, "/policies/0/groups/0", "pattern"),
        ({"policies": [layout("no spaces", nodes=["w1"])]}, "/policies/0/name", "pattern"),
        ({"default": {"reservedResources": {"cpu": "cpuset:"}}}, "/default", "pattern"),
        ({"default": {"reservedResources": {"cpu": 1}}}, "/default", "want string"),
        ({"default": {**SPEC, "availableResources": {"cpu": "12"}}}, "/default", "pattern"),
        ({"commonLabels": {"a": 1}}, "/commonLabels/a", "want string"),
        ({"policy": []}, "", "'policy'"),
    ],
)
def test_refused_by_the_schema(helm: Path, values: dict[str, Any], where: str, message: str) -> None:
    text = refusal(helm, CHART, values)
    assert f"at '{where}" in text
    assert message in text
