"""What torch_venv and wheelhouse answer on a bare node and for it; each test changes what it is about."""

from __future__ import annotations

from typing import Any

from fullmesh.contract import convert_value
from fullmesh.observed.torch import VenvSeen, WheelhouseResult


def make_node(**change: Any) -> VenvSeen:
    """A node that has no environment yet."""
    bare = {
        "python": "3.11",
        "machine": "x86_64",
        "glibc": [2, 34],
        "fault": "",
        "digest": "0123456789abcdef",
        "folder": "/opt/fullmesh/venvs/0123456789abcdef",
        "needed": True,
        "linked": False,
        "current": "",
        "versions": {},
        "store": "/opt/fullmesh/venvs",
        "free_bytes": 1 << 40,
        "have": [],
        "bundles": {},
    }
    return convert_value(VenvSeen, {**bare, **change})


def wheels(**change: Any) -> WheelhouseResult:
    """One bundle of one wheel."""
    whole = {
        "changed": True,
        "key": "0123456789abcdef",
        "wheels": {"torch-2.0-py3-none-any.whl": "0" * 64},
        "bundle": "/c/1.tar",
        "bundle_bytes": 9,
        "manifest": {"size": 9, "piece": 4 << 20, "pieces": ["0" * 64]},
        "installed_bytes": 9,
    }
    return convert_value(WheelhouseResult, {**whole, **change})
