"""The chart nri-balloons on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts.charttools import ci_values, documents, rendered
from cluster.apiserver import Cluster

CHART = "nri-balloons"
ACCOUNT = "system:serviceaccount:kube-system:nri-resource-policy-balloons"
KINDS = "daemonset,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding"
OURS = "app.kubernetes.io/name=nri-resource-policy-balloons"


@pytest.fixture
def clean(cluster: Cluster) -> Iterator[Cluster]:
    """The API server, without what the chart made afterwards."""
    yield cluster
    cluster.kubectl("delete", KINDS, "-n", "kube-system", "-l", OURS, "--ignore-not-found")


def versions(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Resource version and generation of each object of the chart."""
    answer = cluster.kubectl("get", KINDS, "-n", "kube-system", "-l", OURS, "-o", "json").stdout
    return {
        f"{item['kind']}/{item['metadata']['name']}": (
            item["metadata"]["resourceVersion"],
            item["metadata"].get("generation", 0),
        )
        for item in json.loads(answer)["items"]
    }


@pytest.mark.parametrize("path", ci_values(CHART), ids=lambda path: path.stem)
def test_it_is_accepted_and_applying_it_again_changes_nothing(clean: Cluster, helm: Path, path: Path) -> None:
    text = rendered(helm, CHART, path)
    clean.kubectl("apply", "--server-side", "-f", "-", input=text)
    first = versions(clean)
    assert len(first) == len(documents(text))
    clean.kubectl("apply", "--server-side", "-f", "-", input=text)
    assert versions(clean) == first
    assert clean.kubectl("diff", "--server-side", "-f", "-", input=text).stdout == ""


def may(cluster: Cluster, verb: str, what: tuple[str, str], namespace: str = "", subresource: str = "") -> bool:
    """Whether the plugin's ServiceAccount has a right to an API group and resource, which need not exist."""
    group, resource = what
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": asked},
    }
    answer = cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review)).stdout
    return bool(json.loads(answer)["status"]["allowed"])


def test_the_plugin_may_do_what_it_has_to_and_no_more(clean: Cluster, helm: Path) -> None:
    clean.kubectl("apply", "--server-side", "-f", "-", input=rendered(helm, CHART))
    policies, topologies = ("config.nri", "balloonspolicies"), ("topology.node.k8s.io", "noderesourcetopologies")
    assert may(clean, "watch", ("", "nodes"))
    assert may(clean, "watch", policies, "kube-system")
    assert may(clean, "patch", policies, "kube-system", "status")
    assert not may(clean, "update", policies, "kube-system")
    assert not may(clean, "watch", policies, "default")
    assert not may(clean, "patch", ("", "nodes"))
    assert not may(clean, "list", ("", "pods"), "kube-system")
    assert not may(clean, "get", ("", "secrets"), "kube-system")
    assert not may(clean, "create", topologies)
    with_topologies = rendered(helm, CHART, {"nodeResourceTopology": True})
    clean.kubectl("apply", "--server-side", "-f", "-", input=with_topologies)
    assert may(clean, "create", topologies)
