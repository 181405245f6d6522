"""The lists of tools are lists of package names."""

from __future__ import annotations

from typing import Any

import pytest

from fullmesh.roles import monitoring_tools as core


@pytest.mark.parametrize("value", [[], ["nload", "iftop"], ["g++-13:amd64", "@development-tools"]])
def test_lists_of_package_names_pass(value: list[str]) -> None:
    assert core.faults({"monitoring_tools_packages": value}) == []


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("htop", "'htop'"),
        (None, "None"),
        ({"htop": 1}, "{'htop': 1}"),
        (["htop", "a b"], "'a b'"),
        (["-y"], "'-y'"),
        (["https://example.org/a.rpm"], "'https://example.org/a.rpm'"),
    ],
)
def test_anything_else_is_refused_with_what_was_seen(value: Any, seen: str) -> None:
    given = {"monitoring_tools_packages": value, "monitoring_tools_gpu_packages": ["nvtop"]}
    (fault,) = core.faults(given)
    assert fault.code == "MT-102"
    assert fault.text == f"monitoring_tools_packages has {seen}"


def test_what_is_owned_may_have_any_version() -> None:
    assert core.owned(["nload"]) == {"nload": ""}
