"""The BalloonsPolicy CRD and the chart balloons-policy on a real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from charts.charttools import CHARTS, CRD, REPOSITORY, ci_values, documents, rendered
from cluster.apiserver import Cluster

NAMESPACE = "policies-test"
EMPTY_NAMESPACE = "policies-none"
RECORDINGS = sorted((REPOSITORY / "tests" / "placement" / "recordings").glob("*.json"))
VALUES = [*ci_values("balloons-policy"), *sorted((REPOSITORY / "env").glob("*/values/balloons-policy.yaml"))]
SPEC: dict[str, Any] = {
    "reservedResources": {"cpu": "cpuset:0"},
    "balloonTypes": [
        {"name": "slot", "preferCloseToDevices": ["/sys/devices/system/node/node0"]},
        {"name": "top", "components": [{"balloonType": "slot"}]},
    ],
}
LAYOUT: dict[str, Any] = {"name": "one", "nodes": ["w1"], "spec": SPEC}
APPLY = ("apply", "--server-side", "--filename=-")


@pytest.fixture(scope="module")
def policies(cluster: Cluster) -> Iterator[Cluster]:
    """The API server with the CRD and a namespace, both gone afterwards."""
    cluster.kubectl("apply", "--server-side", f"--filename={CRD}")
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"--filename={CRD}")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "namespace", EMPTY_NAMESPACE)
    yield cluster
    cluster.kubectl("delete", "balloonspolicies", "--all", "--namespace", NAMESPACE)
    cluster.kubectl("delete", "--wait=false", f"--filename={CRD}")


def policy(spec: dict[str, Any], name: str = "default") -> str:
    metadata = {"name": name, "namespace": NAMESPACE}
    return json.dumps(
        {"apiVersion": "config.nri/v1alpha1", "kind": "BalloonsPolicy", "metadata": metadata, "spec": spec}
    )


def stored(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """All policies in the namespace by name."""
    answer = cluster.kubectl("get", "balloonspolicies", "--namespace", NAMESPACE, "--output=json").stdout
    return {item["metadata"]["name"]: item for item in json.loads(answer)["items"]}


def changed(index: int = 0, **fields: Any) -> dict[str, Any]:
    """The spec with other fields in one of its balloon types: 0 has CPUs of its own, 1 is a composite."""
    spec = deepcopy(SPEC)
    spec["balloonTypes"][index] |= fields
    return spec


def test_crd_applied_twice_is_the_same(policies: Cluster) -> None:
    get = ("get", "customresourcedefinition", "balloonspolicies.config.nri", "--output=json")
    before = json.loads(policies.kubectl(*get).stdout)
    policies.kubectl("apply", "--server-side", f"--filename={CRD}")
    after = json.loads(policies.kubectl(*get).stdout)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    conditions = {item["type"]: item["status"] for item in after["status"]["conditions"]}
    assert conditions.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize("path", VALUES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_rendered_policies(policies: Cluster, helm: Path, path: Path) -> None:
    """They are taken, stored as they were written, and applying them again changes nothing."""
    text = rendered(helm, "balloons-policy", path, "--set", f"namespace={NAMESPACE}")
    wanted = {item["metadata"]["name"]: item["spec"] for item in documents(text)}
    policies.kubectl(*APPLY, input=text)
    before = stored(policies)
    assert {name: before[name]["spec"] for name in wanted} == wanted
    policies.kubectl(*APPLY, input=text)
    assert stored(policies) == before
    assert all(before[name]["metadata"]["generation"] >= 1 for name in wanted)
    # A person without server-side apply gets the same.
    assert policies.kubectl("diff", "--filename=-", input=text, check=False).returncode == 0


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_policies_of_the_recordings(policies: Cluster, path: Path) -> None:
    spec = json.loads(path.read_text(encoding="utf-8"))["policy"]
    policies.kubectl("create", "--dry-run=server", "--filename=-", input=policy(spec, "node.recorded"))


def test_changed_order_of_types_is_a_change(policies: Cluster) -> None:
    """The first type that matches takes a container, so the order must never be lost."""
    policies.kubectl(*APPLY, input=policy(SPEC, "ordered"))
    before = stored(policies)["ordered"]
    turned = {**SPEC, "balloonTypes": SPEC["balloonTypes"][::-1]}
    policies.kubectl(*APPLY, input=policy(turned, "ordered"))
    after = stored(policies)["ordered"]
    assert [item["name"] for item in after["spec"]["balloonTypes"]] == ["top", "slot"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_absent_priority_becomes_high_and_nothing_else_is_filled_in(policies: Cluster) -> None:
    policies.kubectl(*APPLY, input=policy({**SPEC, "agent": {}, "instrumentation": {}}, "filled"))
    types = [{**item, "allocatorPriority": "high"} for item in SPEC["balloonTypes"]]
    assert stored(policies)["filled"]["spec"] == {**SPEC, "agent": {}, "instrumentation": {}, "balloonTypes": types}


@pytest.mark.parametrize(
    "spec",
    [
        changed(minCPUs=4, maxCPUs=4),
        changed(minCPUs=4, maxCPUs=0),
        changed(minBalloons=2),
        changed(minBalloons=2, maxBalloons=0),
        changed(1, allocatorPriority="low", preferIsolCpus=False, cpuClass="", loads=[], preferCloseToDevices=[]),
        changed(components=[], cpuClass="turbo"),
        changed(matchExpressions=[{"key": "name", "operator": "Exists"}]),
        {"reservedResources": {"cpu": "0.5"}},
        {"reservedResources": {"cpu": "750m"}, "availableResources": {"cpu": "cpuset:0-3,8"}},
        {**SPEC, "balloonTypes": [{"name": f"type{index}"} for index in range(1024)]},
    ],
)
def test_accepted(policies: Cluster, spec: dict[str, Any]) -> None:
    policies.kubectl("create", "--dry-run=server", "--filename=-", input=policy(spec, "accepted"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (changed(minCpus=4), 'unknown field "spec.balloonTypes[0].minCpus"'),
        ({**SPEC, "reservedPool": []}, 'unknown field "spec.reservedPool"'),
        ({}, "spec.reservedResources: Required value"),
        ({"reservedResources": {}}, "spec.reservedResources.cpu: Required value"),
        ({"reservedResources": {"cpu": "1", "memory": "1Gi"}}, 'unknown field "spec.reservedResources.memory"'),
        ({"reservedResources": {"cpu": "0-3"}}, "spec.reservedResources.cpu: Invalid value"),
        ({"reservedResources": {"cpu": 1}}, "must be of type string"),
        ({**SPEC, "availableResources": {"cpu": "8"}}, "spec.availableResources.cpu: Invalid value"),
        ({**SPEC, "balloonTypes": [{"minCPUs": 1}]}, "spec.balloonTypes[0].name: Required value"),
        (changed(name=""), "spec.balloonTypes[0].name"),
        (changed(minCPUs="4"), "must be of type integer"),
        (changed(minCPUs=-1), "spec.balloonTypes[0].minCPUs: Invalid value"),
        (changed(allocatorPriority="highest"), 'Unsupported value: "highest"'),
        (changed(componentCreation="some"), 'Unsupported value: "some"'),
        (changed(memoryTypes=["DDR"]), 'Unsupported value: "DDR"'),
        (changed(memoryTypes=["DRAM", "DRAM"]), "Duplicate value"),
        (changed(1, components=[{}]), "components[0].balloonType: Required value"),
        (changed(matchExpressions=[{"key": "name", "operator": "Is"}]), 'Unsupported value: "Is"'),
        # Rules
        (changed(minCPUs=4, maxCPUs=2), "minCPUs is larger than maxCPUs"),
        (changed(minBalloons=4, maxBalloons=2), "minBalloons is larger than maxBalloons"),
        (changed(componentCreation="all"), "componentCreation needs components"),
        (changed(1, preferCloseToDevices=["/sys"]), "preferCloseToDevices belongs on its components"),
        (changed(1, preferSpreadOnPhysicalCores=False), "preferSpreadOnPhysicalCores belongs on its components"),
        (changed(1, allocatorTopologyBalancing=True), "allocatorTopologyBalancing belongs on its components"),
        (changed(1, preferCoreType="efficient"), "preferCoreType belongs on its components"),
        (changed(1, preferIsolCpus=True), "preferIsolCpus belongs on its components"),
        (changed(1, cpuClass="turbo"), "cpuClass belongs on its components"),
        (changed(1, loads=["avx"]), "loads belongs on its components"),
        (changed(matchExpressions=[{"key": "name", "operator": "Equals"}]), "take exactly one value"),
        (changed(matchExpressions=[{"key": "name", "operator": "Exists", "values": ["a"]}]), "take no values"),
        (
            {**SPEC, "preserve": {"matchExpressions": [{"key": "name", "operator": "Matches", "values": ["a", "b"]}]}},
            "take exactly one value",
        ),
        ({**SPEC, "cpuClasses": [{"name": "a", "sstClosID": 0, "pctPriority": "low"}]}, "exclude each other"),
        ({**SPEC, "cpuClasses": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    ],
)
def test_refused(policies: Cluster, spec: dict[str, Any], message: str) -> None:
    refused = policies.kubectl(
        "create", "--dry-run=server", "--validate=strict", "--filename=-", input=policy(spec, "refused"), check=False
    )
    assert refused.returncode != 0
    assert message in refused.stderr


def test_status_is_a_subresource(policies: Cluster) -> None:
    """The plugin writes it apart from the spec, and it is no change of the policy."""
    policies.kubectl(*APPLY, input=policy(SPEC, "with-status"))
    before = stored(policies)["with-status"]
    state = {
        "status": "Failure",
        "generation": before["metadata"]["generation"],
        "errors": "no such CPU",
        "timestamp": "2025-01-01T00:00:00Z",
    }
    patch = ("patch", "balloonspolicy", "with-status", "--namespace", NAMESPACE, "--type=merge")
    status = json.dumps({"status": {"nodes": {"w1": state}}})
    policies.kubectl(*patch, "--patch", status)
    assert "status" not in stored(policies)["with-status"]
    policies.kubectl(*patch, "--subresource=status", "--patch", status)
    after = stored(policies)["with-status"]
    assert after["status"] == {"nodes": {"w1": state}}
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    # Applying the policy again keeps the status.
    policies.kubectl(*APPLY, input=policy(SPEC, "with-status"))
    assert stored(policies)["with-status"]["status"] == after["status"]
    wrong = json.dumps({"status": {"nodes": {"w1": {**state, "status": "Pending"}}}})
    refused = policies.kubectl(*patch, "--subresource=status", "--patch", wrong, check=False)
    assert 'Unsupported value: "Pending"' in refused.stderr


def test_columns(policies: Cluster) -> None:
    policies.kubectl(*APPLY, input=policy(SPEC, "shown"))
    head, row = policies.kubectl("get", "blp", "shown", "--namespace", NAMESPACE).stdout.splitlines()
    assert head.split() == ["NAME", "LAYOUT", "RESERVED", "AGE"]
    assert row.split()[:2] == ["shown", "cpuset:0"]


@pytest.mark.parametrize(
    ("values", "notes"),
    [
        ({}, "There are no policies yet. Write them with"),
        ({"enabled": False}, "balloons-policy is off (enabled: false): there is no policy."),
        ({"default": SPEC}, f"In namespace {EMPTY_NAMESPACE}: the default policy."),
        ({"policies": [LAYOUT]}, f"In namespace {EMPTY_NAMESPACE}: 1 layout."),
        ({"policies": [LAYOUT, LAYOUT | {"nodes": ["w2"]}], "default": SPEC}, "2 layouts and the default policy."),
    ],
)
def test_helm_says_what_it_made(policies: Cluster, helm: Path, values: dict[str, Any], notes: str) -> None:
    command = [str(helm), "install", "noted", str(CHARTS / "balloons-policy"), "--namespace", EMPTY_NAMESPACE]
    command += ["--kubeconfig", str(policies.kubeconfig), "--dry-run=server", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert notes in done.stdout.partition("NOTES:\n")[2].splitlines()[0]
