"""The pre-flight against the pods of a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.apiserver import VIEWER, Cluster
from commands import Outcome, balloonist
from environments import write_environment
from machines import machine

KEY = "balloon.balloons.resource-policy.nri.io/container.main"
NAMESPACE = "live-preflight"
MODELS = [{"name": "large", "cpu": 20, "replicas": 2, "parameters_b": 8}]


def pod(name: str, cpu: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    container = {"name": "main", "image": "example.org/none", "resources": resources}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "w1", "containers": [container]},
    }


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Cluster:
    """The API server with a namespace for the pods; no controller is there that could delete it again."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    return cluster


@pytest.fixture
def nodes(namespace: Cluster) -> Iterator[Cluster]:
    """The API server, without the pods of the test afterwards."""
    yield namespace
    namespace.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return write_environment(tmp_path / "env", nodes=[machine(1, 2, 24)], models=MODELS)


def ask(cluster: Cluster, env: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Outcome:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    return balloonist("preflight", "large", "--env", env, "--live", "-o", "json", *arguments)


def test_balloons_in_use_are_those_of_the_cluster(nodes: Cluster, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    annotation = {KEY: "vllm-balloon-tp1"}
    for number in (1, 2):
        before = ask(nodes, env, monkeypatch)
        assert before.code == 0, before.err
        assert f"{3 - number} of 2 balloons" in before.out
        nodes.kubectl("create", "-f", "-", input=json.dumps(pod(f"model-{number}", "40", annotation)))
    full = ask(nodes, env, monkeypatch)
    assert full.code == 1
    assert "no balloon of type vllm-balloon-tp1 is free: 2 planned, 2 in use" in full.out


def test_system_pods_that_ask_for_more_than_is_left_are_an_error(
    nodes: Cluster, env: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        nodes.kubectl("create", "-f", "-", input=json.dumps(pod(f"system-{number}", "4500m")))
    outcome = ask(nodes, env, monkeypatch)
    assert outcome.code == 1
    assert (
        "containers that are no model servers ask for 18 CPUs, 4 are reserved and the plan leaves 12 over"
        in outcome.out
    )


def test_a_missing_right_is_named(nodes: Cluster, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = ask(nodes, env, monkeypatch, "--context", VIEWER)
    assert outcome.code == 1
    assert "listing pods in all namespaces is not allowed" in outcome.err
    assert "verbs: [list]" in outcome.err


def test_a_cluster_that_is_not_there(env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    outcome = balloonist("preflight", "large", "--env", env, "--live")
    assert outcome.code == 1
    assert "KUBECONFIG" in outcome.err
    gone = {"cluster": {"server": "https://127.0.0.1:9"}, "name": "gone"}
    context = {"context": {"cluster": "gone", "user": "me"}, "name": "gone"}
    config = {
        "clusters": [gone],
        "contexts": [context],
        "current-context": "gone",
        "users": [{"name": "me", "user": {}}],
    }
    (tmp_path / "gone").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))
    outcome = balloonist("preflight", "large", "--env", env, "--live")
    assert outcome.code == 1
    assert "cannot be reached" in outcome.err
    assert "Traceback" not in outcome.err
