"""The chart nri-balloons: what it renders, that every value matters, and what it refuses and how."""

from __future__ import annotations

import copy
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


@pytest.mark.parametrize("key", [*leaves(DEFAULTS), "resources.limits.cpu", "resources", "image", "nodeSelector"])
def test_null_never_becomes_text(helm: Path, key: str) -> None:
    # helm/helm#9136, helm/helm#30587: what null does differs by version; it is refused or it means "without"
    done = helm_template(helm, CHART, nested(key, None))
    if done.returncode == 0:
        assert "null" not in done.stdout
        assert "<no value>" not in done.stdout
        for item in documents(done.stdout):
            assert item["metadata"]["name"]
    else:
        assert key.rsplit(".", maxsplit=1)[-1] in done.stderr or "null" in done.stderr


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
