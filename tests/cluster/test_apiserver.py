"""The test cluster itself: what other tests rely on."""

import json
import socket
from pathlib import Path

import pytest

from cluster.apiserver import LOOPBACK, VIEWER, Cluster, running_cluster
from cluster.binaries import ToolMissingError, require_tool, tool_version
from cluster.schemas import dump_crd_schemas, run_kubeconform

NAMESPACE = "apiserver-test"
DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: apiserver-test
spec:
  selector:
    matchLabels: {app: agent}
  template:
    metadata:
      labels: {app: agent}
    spec:
      containers:
        - name: agent
          image: example.org/agent:1
          resources:
            requests: {cpu: 1, memory: 64Mi}
          securityContext: {privileged: true}
"""
CRD = {
    "spec": {
        "group": "things.example.org",
        "names": {"kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {
                                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                                        "x-kubernetes-int-or-string": True,
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                        },
                    }
                },
            }
        ],
    }
}


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> str:
    cluster.kubectl("create", "namespace", NAMESPACE)
    return NAMESPACE


def test_server_is_ready(cluster: Cluster) -> None:
    assert cluster.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_client_and_server_report_the_pinned_versions(cluster: Cluster) -> None:
    versions = json.loads(cluster.kubectl("version", "--output=json").stdout)
    assert versions["serverVersion"]["gitVersion"] == "v" + tool_version("kube-apiserver")
    assert versions["clientVersion"]["gitVersion"] == "v" + tool_version("kubectl")
    assert versions["serverVersion"]["minor"] == "36"


def test_server_side_apply_of_a_daemon_set(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "--server-side", "--filename=-", input=DAEMON_SET)
    get = ("get", "daemonset", "agent", "-n", namespace, "--show-managed-fields", "--output=json")
    stored = json.loads(cluster.kubectl(*get).stdout)
    assert stored["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    assert stored["metadata"]["managedFields"][0]["operation"] == "Apply"


def test_unknown_field_is_refused(cluster: Cluster, namespace: str) -> None:
    wrong = DAEMON_SET.replace("selector:", "selectorr:")
    refused = cluster.kubectl("apply", "--server-side", "--filename=-", input=wrong, check=False)
    assert refused.returncode != 0
    assert "selectorr" in refused.stderr


def test_pod_without_a_service_account_is_accepted(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("run", "single", "--image=example.org/agent:1", "-n", namespace)
    phase = cluster.kubectl("get", "pod", "single", "-n", namespace, "--output=jsonpath={.status.phase}").stdout
    assert phase == "Pending"


def test_user_without_rights_is_forbidden(cluster: Cluster) -> None:
    refused = cluster.kubectl("get", "daemonsets", "--all-namespaces", user=VIEWER, check=False)
    assert refused.returncode != 0
    assert "Forbidden" in refused.stderr
    assert cluster.kubectl("auth", "can-i", "list", "nodes", user=VIEWER, check=False).stdout.strip() == "no"


def test_service_account_token_is_accepted(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    token = cluster.kubectl("create", "token", "reader", "-n", namespace).stdout.strip()
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    answer = cluster.kubectl("create", "--filename=-", "--output=json", input=json.dumps(review)).stdout
    assert json.loads(answer)["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:reader"


def test_failing_kubectl_fails_the_test(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="NotFound"):
        cluster.kubectl("get", "namespace", "absent")


def test_restart_keeps_the_data(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "kept", "-n", namespace, "--from-literal=key=value")
    cluster.restart()
    assert (
        cluster.kubectl("get", "configmap", "kept", "-n", namespace, "--output=jsonpath={.data.key}").stdout == "value"
    )


def test_processes_are_gone_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), running_cluster(tmp_path) as broken:
        plane = broken.control_plane
        assert is_listening(plane.api_port)
        assert is_listening(plane.etcd_port)
        raise RuntimeError("on purpose")
    assert not is_listening(plane.api_port)
    assert not is_listening(plane.etcd_port)
    assert (plane.directory / "kube-apiserver.log").stat().st_size > 0
    assert not (plane.directory / "etcd").exists()


def test_missing_tool_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALLOONIST_CACHE", str(tmp_path))
    with pytest.raises(ToolMissingError, match="run make tools"):
        require_tool("helm")


def test_kubeconform_accepts_what_the_server_accepts(kubeconform: Path, kubernetes_schemas: Path) -> None:
    done = run_kubeconform(kubeconform, DAEMON_SET, kubernetes_schemas)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Valid: 1" in done.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("selector:", "selectorr:"),
        ("privileged: true", "privileged: 'true'"),
        ("cpu: 1", "cpu: [1]"),
        ("kind: DaemonSet", "kind: DaemonSets"),
        ("apps/v1", "apps/v2"),
    ],
)
def test_kubeconform_refuses(kubeconform: Path, kubernetes_schemas: Path, right: str, wrong: str) -> None:
    assert run_kubeconform(kubeconform, DAEMON_SET.replace(right, wrong), kubernetes_schemas).returncode != 0


@pytest.mark.parametrize(
    ("spec", "valid"),
    [
        ({"size": 1}, True),
        ({"size": "10%", "free": {"any": ["thing"]}}, True),
        ({"size": 1, "other": 2}, False),
        ({}, False),
    ],
)
def test_kubeconform_with_a_custom_resource(
    kubeconform: Path, tmp_path: Path, spec: dict[str, object], valid: bool
) -> None:
    dump_crd_schemas(CRD, tmp_path)
    thing = {"apiVersion": "things.example.org/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec}
    done = run_kubeconform(kubeconform, json.dumps(thing), tmp_path)
    assert (done.returncode == 0) == valid, done.stdout + done.stderr
