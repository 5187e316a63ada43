"""The cluster of the tests in this directory: one real API server per test run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.apiserver import Cluster, running_cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Send all tests that need the API server to the same pytest-xdist worker (with --dist loadgroup)."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, control_plane_tools: None
) -> Iterator[Cluster]:
    """Run etcd and kube-apiserver for the whole session; their logs are kept when a test failed."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with running_cluster(directory) as running:
        yield running
    if not request.session.testsfailed:
        shutil.rmtree(directory, ignore_errors=True)
