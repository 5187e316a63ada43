"""Finds the pinned external tools that tools/install built into the user's cache."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class ToolMissingError(Exception):
    """A pinned tool is not in the cache; tests fail with this, they are never skipped for it."""


def read_versions() -> dict[str, str]:
    """Read tools/versions: shell assignments without quotes, one a line."""
    lines = (REPOSITORY / "tools" / "versions").read_text(encoding="utf-8").splitlines()
    assignments = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in assignments}


def tool_version(tool: str) -> str:
    """Return the pinned version of a tool, without a leading "v"."""
    return read_versions()[tool.upper().replace("-", "_") + "_VERSION"]


def cache_directory() -> Path:
    """Return the cache directory, found the same way as tools/install does."""
    if chosen := os.environ.get("BALLOONIST_CACHE"):
        return Path(chosen)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "balloonist"
    return Path.home() / ".cache" / "balloonist"


def require_tool(tool: str) -> Path:
    """Return the path of a pinned tool, or raise with the way to get it."""
    path = cache_directory() / "tools" / f"{tool}-{tool_version(tool)}" / tool
    if not os.access(path, os.X_OK):
        raise ToolMissingError(f"{tool} {tool_version(tool)} is not built yet: run make tools")
    return path
