"""The chart nri-balloons: what it renders, that every value matters, and what it refuses and how."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.charttools import CHARTS, REPOSITORY, assert_golden, ci_values, documents, helm_template, refusal, rendered
from cluster.schemas import run_kubeconform

CHART = "nri-balloons"
EXAMPLES = ci_values(CHART)
GENERATED = sorted((REPOSITORY / "env").glob("*/values/nri-balloons.yaml"))


def objects(helm: Path, values: dict[str, Any] | None = None, *arguments: str) -> dict[str, dict[str, Any]]:
    """The rendered objects by kind; each kind occurs once."""
    found = documents(rendered(helm, CHART, values, *arguments))
    by_kind = {item["kind"]: item for item in found}
    assert len(by_kind) == len(found)
    return by_kind


def pod(helm: Path, values: dict[str, Any] | None = None, *arguments: str) -> dict[str, Any]:
    spec: dict[str, Any] = objects(helm, values, *arguments)["DaemonSet"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_golden(helm: Path, path: Path) -> None:
    assert_golden(f"{CHART}/{path.stem.removesuffix('-values')}.yaml", rendered(helm, CHART, path))


@pytest.mark.parametrize("path", [*EXAMPLES, *GENERATED], ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_kubeconform(helm: Path, kubeconform: Path, kubernetes_schemas: Path, path: Path) -> None:
    text = rendered(helm, CHART, path)
    done = run_kubeconform(kubeconform, text, kubernetes_schemas)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Valid: {len(documents(text))}," in done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_rendering_twice_gives_the_same_bytes(helm: Path, path: Path) -> None:
    assert rendered(helm, CHART, path) == rendered(helm, CHART, path)


def test_what_the_plugin_needs(helm: Path) -> None:
    spec = pod(helm)
    (container,) = spec["containers"]
    assert container["args"][:4] == ["--host-root", "/host", "--config-namespace", "kube-system"]
    assert container["args"][4:] == ["--pid-file", "/tmp/nri-resource-policy.pid", "--nri-plugin-index", "90"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert set(mounts) >= {
        "/host/sys",
        "/host/proc",
        "/var/lib/nri-resource-policy",
        "/var/run/nri",
        "/var/run/nri-resource-policy",
        "/var/lib/kubelet/pod-resources",
    }
    assert {mount["name"] for mount in mounts.values()} == {volume["name"] for volume in spec["volumes"]}
    assert container["env"] == [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    assert container["image"].endswith(":v0.13.0")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"


def test_least_privilege(helm: Path) -> None:
    (container,) = pod(helm)["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    read_only = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    assert read_only == {"/host/sys", "/host/proc", "/var/lib/kubelet/pod-resources"}


def test_only_the_plugins_own_pods_get_a_token(helm: Path) -> None:
    assert objects(helm)["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod(helm)["automountServiceAccountToken"] is True


def test_a_node_without_nri_is_seen_at_once(helm: Path) -> None:
    def socket_type(values: dict[str, Any]) -> str:
        volumes = {
            volume["name"]: volume["hostPath"] for volume in pod(helm, values)["volumes"] if "hostPath" in volume
        }
        return str(volumes["nri-socket"]["type"])

    assert socket_type({}) == "Directory"
    assert socket_type({"runtimeEnabling": {"enabled": True}}) == "DirectoryOrCreate"


def test_only_the_runtime_is_touched_by_a_privileged_container_and_only_when_asked(helm: Path) -> None:
    assert "privileged: true" not in rendered(helm, CHART)
    for runtime, directory in (("containerd", "/etc/containerd"), ("crio", "/etc/crio/crio.conf.d")):
        spec = pod(helm, {"runtimeEnabling": {"enabled": True, "runtime": runtime}})
        (init,) = spec["initContainers"]
        assert init["securityContext"] == {"privileged": True}
        assert init["volumeMounts"][0] == {"name": "runtime-config", "mountPath": directory}


def test_probes_exist_only_where_something_is_served(helm: Path) -> None:
    (plain,) = pod(helm)["containers"]
    assert "readinessProbe" not in plain
    (served,) = pod(helm, {"metrics": {"enabled": True, "port": 9100}})["containers"]
    assert served["ports"] == [{"name": "metrics", "containerPort": 9100, "protocol": "TCP"}]
    assert served["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert "livenessProbe" not in served


def test_rights_are_no_more_than_the_plugin_uses(helm: Path) -> None:
    found = objects(helm)
    assert [rule["resources"] for rule in found["ClusterRole"]["rules"]] == [["nodes"]]
    assert [rule["resources"] for rule in found["Role"]["rules"]] == [["balloonspolicies"], ["balloonspolicies/status"]]
    more = objects(helm, {"nodeResourceTopology": True})["ClusterRole"]["rules"]
    assert more[1]["apiGroups"] == ["topology.node.k8s.io"]


def test_off_renders_nothing(helm: Path) -> None:
    assert documents(rendered(helm, CHART, {"enabled": False})) == []


def test_the_chart_version_is_not_in_the_pod_template(helm: Path) -> None:
    template = objects(helm)["DaemonSet"]["spec"]["template"]
    assert "helm.sh/chart" not in template["metadata"]["labels"]


OTHER: dict[str, Any] = {
    "image": {
        "repository": "example.org/plugin",
        "tag": "other",
        "digest": f"sha256:{'0' * 64}",
        "pullPolicy": "Always",
    },
    "runtimeEnabling": {
        "enabled": True,
        "runtime": "crio",
        "image": {
            "repository": "example.org/init",
            "tag": "other",
            "digest": f"sha256:{'1' * 64}",
            "pullPolicy": "Never",
        },
        "pluginRegistrationTimeout": "7s",
        "pluginRequestTimeout": "3s",
    },
    "metrics": {"enabled": True, "port": 9999},
    "probes": {"readiness": False, "liveness": True},
    "serviceAccount": {"create": False, "name": "mine", "annotations": {"a": "b"}},
    "rbac": {"create": False},
    "updateStrategy": {"type": "OnDelete", "maxUnavailable": "25%"},
    "resources": {"requests": {"cpu": "7", "memory": "7Gi"}, "limits": {"cpu": "8", "memory": "8Gi"}},
    "enabled": False,
    "imagePullSecrets": [{"name": "pull"}],
    "pluginIndex": 3,
    "configGroupLabel": "example.org/group",
    "nodeResourceTopology": True,
    "hostWritable": True,
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "nodeSelector": {"a": "b"},
    "affinity": {"podAntiAffinity": {}},
    "tolerations": [],
    "priorityClassName": "other",
    "terminationGracePeriodSeconds": 1,
}
NEEDS: dict[str, dict[str, Any]] = {
    "metrics.port": {"metrics": {"enabled": True}},
    "probes.readiness": {"metrics": {"enabled": True}},
    "probes.liveness": {"metrics": {"enabled": True}},
    **{
        f"runtimeEnabling.{key}": {"runtimeEnabling": {"enabled": True}}
        for key in ("runtime", "pluginRegistrationTimeout", "pluginRequestTimeout")
    },
    **{
        f"runtimeEnabling.image.{key}": {"runtimeEnabling": {"enabled": True}}
        for key in ("repository", "tag", "digest", "pullPolicy")
    },
}


def leaves(values: dict[str, Any], prefix: str = "") -> list[str]:
    """The dotted keys of values.yaml; maps that are empty there count as one value."""
    found: list[str] = []
    for key, value in values.items():
        found += leaves(value, f"{prefix}{key}.") if isinstance(value, dict) and value else [f"{prefix}{key}"]
    return found


def nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


DEFAULTS: dict[str, Any] = yaml.safe_load((CHARTS / CHART / "values.yaml").read_text())


@pytest.mark.parametrize("key", [*leaves(DEFAULTS), "resources.limits.cpu"])
def test_every_value_matters(helm: Path, key: str) -> None:
    value: Any = OTHER
    for part in key.split("."):
        value = value[part]
    base = NEEDS.get(key, {})
    assert rendered(helm, CHART, base) != rendered(helm, CHART, merged(base, nested(key, value)))


def nulls(value: object, place: str = "") -> Iterator[str]:
    """Where an object holds a null."""
    if value is None:
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from nulls(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from nulls(item, f"{place}[{number}]")


SECTIONS = [key for key, value in DEFAULTS.items() if isinstance(value, dict) and value]
NULLABLE = [
    *(
        "affinity",
        "imagePullSecrets",
        "nodeSelector",
        "podAnnotations",
        "podLabels",
        "priorityClassName",
        "tolerations",
    ),
    *("resources", "resources.requests", "resources.limits", "resources.requests.cpu", "resources.requests.memory"),
    *("resources.limits.cpu", "resources.limits.memory", "serviceAccount.annotations"),
]
EMPTY = ["image.tag", "image.digest", "configGroupLabel", "serviceAccount.name"]
EMPTY += [f"runtimeEnabling.{key}" for key in ("pluginRegistrationTimeout", "pluginRequestTimeout")]
EMPTY += [f"runtimeEnabling.image.{key}" for key in ("tag", "digest")]


@pytest.mark.parametrize(
    "on", [{}, {"metrics": {"enabled": True}, "runtimeEnabling": {"enabled": True}}], ids=["", "on"]
)
@pytest.mark.parametrize("key", [*dict.fromkeys([*leaves(DEFAULTS), *SECTIONS, *NULLABLE])])
def test_null_means_without_or_is_refused_by_name(helm: Path, key: str, on: dict[str, Any]) -> None:
    # helm/helm#9136, helm/helm#30587, helm/helm#32132
    done = helm_template(helm, CHART, merged(on, nested(key, None)))
    if key in NULLABLE or key in EMPTY:
        assert done.returncode == 0, done.stderr
        assert list(nulls(documents(done.stdout))) == []
        assert "<no value>" not in done.stdout
    else:
        assert done.returncode != 0, done.stdout
        assert f"{key}" in done.stderr
        assert "is null; leave it out" in done.stderr


def test_null_from_a_parent_chart_is_the_same_as_ones_own(helm: Path, tmp_path: Path) -> None:
    # helm/helm#32132
    shutil.copytree(CHARTS / CHART, tmp_path / "parent" / "charts" / CHART)
    values: dict[str, Any] = {"nodeSelector": None, "resources": {"limits": {"memory": None}}}
    parent = {"apiVersion": "v2", "name": "parent", "version": "1.0.0"}
    (tmp_path / "parent" / "Chart.yaml").write_text(yaml.safe_dump(parent))
    (tmp_path / "parent" / "values.yaml").write_text(yaml.safe_dump({CHART: values}))
    command = [str(helm), "template", "test", str(tmp_path / "parent"), "--namespace", "kube-system"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert documents(done.stdout) == documents(rendered(helm, CHART, values))


@pytest.mark.parametrize("name", ["123", "1e5", "null", "on", "0x1"])
def test_names_that_yaml_takes_for_something_else_stay_texts(helm: Path, name: str) -> None:
    command = [str(helm), "template", name, str(CHARTS / CHART), "--namespace", name, "--values", "-"]
    values = {"serviceAccount": {"name": name}, "priorityClassName": name, "configGroupLabel": name}
    text = json.dumps(values)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search(
        rf"[:-] {name}$", done.stdout, re.MULTILINE
    )  # PyYAML takes a plain 1e5 for a text, Helm does not
    by_kind = {item["kind"]: item for item in documents(done.stdout)}
    for item in by_kind.values():
        assert item["metadata"]["labels"]["app.kubernetes.io/instance"] == name
        assert item["metadata"].get("namespace", name) == name
    assert by_kind["ServiceAccount"]["metadata"]["name"] == name
    spec = by_kind["DaemonSet"]["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["priorityClassName"]) == (name, name)
    arguments = spec["containers"][0]["args"]
    assert all(isinstance(argument, str) for argument in arguments)
    assert arguments[arguments.index("--config-group-label") + 1] == name
    assert by_kind["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": name}]


def test_large_numbers_are_written_with_digits(helm: Path) -> None:
    # helm/helm#6431
    values = {
        "resources": {"limits": {"memory": 17179869184, "cpu": 1.5}},
        "updateStrategy": {"maxUnavailable": 100000},
    }
    daemonset = objects(helm, values)["DaemonSet"]["spec"]
    assert daemonset["template"]["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "1.5",
        "memory": "17179869184",
    }
    assert daemonset["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 100000}


def test_no_resources_are_no_key(helm: Path) -> None:
    values = {"resources": {"requests": {"cpu": None, "memory": None}, "limits": {"memory": None}}}
    assert "resources" not in pod(helm, values)["containers"][0]


def test_values_join_what_the_chart_says_itself(helm: Path) -> None:
    values = {
        "nodeSelector": {"kubernetes.io/os": "linux", "a": "b"},
        "metrics": {"enabled": True},
        "podAnnotations": {"prometheus.io/scrape": "false"},
    }
    text = rendered(helm, CHART, values)
    assert text.count("kubernetes.io/os") == 1
    template = objects(helm, values)["DaemonSet"]["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "a": "b"}
    assert template["metadata"]["annotations"] == {"prometheus.io/port": "8891", "prometheus.io/scrape": "false"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"imag": {}}, "additional properties 'imag' not allowed"),
        ({"image": {"tagg": "x"}}, "at '/image': additional properties 'tagg' not allowed"),
        ({"image": {"tag": 20161216}}, "at '/image/tag': got number, want string"),
        ({"image": {"tag": 12e5}}, "at '/image/tag': got number, want string"),
        ({"image": {"digest": "latest"}}, "at '/image/digest'"),
        ({"pluginIndex": 100}, "at '/pluginIndex'"),
        ({"metrics": {"port": 0}}, "at '/metrics/port'"),
        ({"runtimeEnabling": {"runtime": "docker"}}, "at '/runtimeEnabling/runtime'"),
        ({"updateStrategy": {"type": "Recreate"}}, "at '/updateStrategy/type'"),
        ({"tolerations": {"key": "a"}}, "at '/tolerations'"),
        ({"enabled": "yes"}, "at '/enabled': got string, want boolean"),
        ({"podLabels": {"app.kubernetes.io/name": "other"}}, "at '/podLabels/app.kubernetes.io~1name'"),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "value must be 'linux'"),
        ({"nodeSelector": {"a": None}}, "at '/nodeSelector/a': got null, want string"),
        ({"tolerations": [{"key": None}]}, "at '/tolerations/0/key': got null, want string"),
        ({"tolerations": [{"keys": "a"}]}, "at '/tolerations/0': additional properties 'keys' not allowed"),
        ({"affinity": {"nodeAffinity": {"a": [{"b": None}]}}}, "at '/affinity/nodeAffinity/a/0/b': got null"),
        ({"affinity": {"nodeAfinity": {}}}, "additional properties 'nodeAfinity' not allowed"),
        ({"updateStrategy": {"maxUnavailable": 0}}, "at '/updateStrategy/maxUnavailable'"),
        ({"updateStrategy": {"maxUnavailable": "0%"}}, "at '/updateStrategy/maxUnavailable'"),
        ({"resources": {"limits": {"memory": "512 MB"}}}, "at '/resources/limits/memory'"),
        ({"resources": {"limits": {"cpus": 1}}}, "additional properties 'cpus' not allowed"),
        ({"configGroupLabel": "a b"}, "at '/configGroupLabel'"),
        ({"serviceAccount": {"name": "Mine"}}, "at '/serviceAccount/name'"),
        ({"terminationGracePeriodSeconds": 1048576}, "at '/terminationGracePeriodSeconds'"),
    ],
)
def test_wrong_values_are_refused_with_their_place(helm: Path, values: dict[str, Any], message: str) -> None:
    assert message in refusal(helm, CHART, values)


def test_a_tag_of_digits_stays_a_text(helm: Path) -> None:
    # helm/helm#6867
    (container,) = pod(helm, None, "--set-string", "image.tag=20161216")["containers"]
    assert container["image"].endswith(":20161216")
    done = helm_template(helm, CHART, None, "--set", "image.tag=20161216")
    assert done.returncode != 0
    assert "at '/image/tag'" in done.stderr


def test_global_values_of_a_parent_chart_are_allowed(helm: Path) -> None:
    assert rendered(helm, CHART, {"global": {"anything": [1, {"a": None}]}}) == rendered(helm, CHART)
