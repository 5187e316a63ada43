"""Fixtures for all tests: the pinned external tools. A missing one fails the test, it never skips it."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from cluster.binaries import ToolMissingError, require_tool
from cluster.schemas import builtin_schemas

# A busy machine is no fault of a property, and CI repeats the same examples: a new one would fail an innocent change.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("project"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("project"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "project"))


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
