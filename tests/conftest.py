"""Fixtures for all tests: the pinned external tools. A missing one fails the test, it never skips it."""

from pathlib import Path

import pytest

from cluster.binaries import ToolMissingError, require_tool
from cluster.schemas import builtin_schemas


def pinned(tool: str) -> Path:
    """Return the path of a pinned tool or fail with the way to get it."""
    try:
        return require_tool(tool)
    except ToolMissingError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def helm() -> Path:
    """Return the pinned Helm."""
    return pinned("helm")


@pytest.fixture(scope="session")
def kubeconform() -> Path:
    """Return the pinned kubeconform."""
    return pinned("kubeconform")


@pytest.fixture(scope="session")
def control_plane_tools() -> None:
    """Make sure that an API server can be started."""
    for tool in ("etcd", "kube-apiserver", "kubectl"):
        pinned(tool)


@pytest.fixture(scope="session")
def kubernetes_schemas(control_plane_tools: None) -> Path:
    """Return the directory of JSON Schemas of all built-in kinds, for kubeconform."""
    return builtin_schemas()
