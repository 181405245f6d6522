"""Testinfra tests that run unchanged against the lab and against real nodes.

    pytest tests/infra --hosts=ansible://torch_nodes --ansible-inventory=inventory/prod

They ask the nodes, not the roles: the expectations come from the node's own plan view, which cluster_env leaves in
/etc/fullmesh/env, and from the manifest.
"""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture
def env(host: Any) -> dict[str, str]:
    """The environment file of the node."""
    lines = host.file("/etc/fullmesh/env").content_string.splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name: value.strip("'\"") for name, value in pairs}


@pytest.fixture
def manifest(host: Any) -> dict[str, Any]:
    """Return the state that the node was configured for."""
    kept: dict[str, Any] = json.loads(host.file("/var/lib/fullmesh/manifest.json").content_string)
    return kept
