"""The lists of tools are lists of package names; the folder for text files is one."""

from __future__ import annotations

from typing import Any

import pytest

from fullmesh.filters.role_faults import role_faults
from fullmesh.roles import monitoring_tools as roles_monitoring_tools


@pytest.mark.parametrize("value", [[], ["nload", "iftop"], ["g++-13:amd64", "@development-tools"]])
def test_lists_of_package_names_pass(value: list[str]) -> None:
    assert (
        roles_monitoring_tools.find_package_list_faults({"monitoring_tools_packages": value}) == []
    )


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
def test_other_values_are_refused_with_the_value(value: Any, seen: str) -> None:
    given = {"monitoring_tools_packages": value, "monitoring_tools_gpu_packages": ["nvtop"]}
    (fault,) = roles_monitoring_tools.find_package_list_faults(given)
    assert fault.code == "MT-102"
    assert fault.text == f"monitoring_tools_packages has {seen}"


def test_an_owned_package_may_have_any_version() -> None:
    assert roles_monitoring_tools.list_watched_packages(["nload"]) == {"nload": ""}


@pytest.mark.parametrize("asked", [True, False])
def test_without_a_folder_it_is_found_out(asked: bool) -> None:
    assert roles_monitoring_tools.find_textfile_dir_faults("", asked) == []


def test_a_folder_is_named_for_node_exporter() -> None:
    assert roles_monitoring_tools.find_textfile_dir_faults("/srv/text", asked=True) == []
    (fault,) = roles_monitoring_tools.find_textfile_dir_faults("/srv/text", asked=False)
    assert fault.code == "MT-104"
    assert "'/srv/text'" in fault.text


@pytest.mark.parametrize(
    "value",
    ["text", "/", "/srv/../etc", "/srv/text/", "/srv/*", "/srv/te\nxt", ["/srv/text"], None],
)
def test_a_folder_that_is_no_plain_path_is_refused(value: Any) -> None:
    (fault,) = roles_monitoring_tools.find_textfile_dir_faults(value, asked=True)
    assert fault.code == "MT-103"
    assert repr(value) in fault.text


def test_the_filter_reports_in_sentences() -> None:
    given: dict[str, Any] = {
        "monitoring_tools_packages": "htop",
        "monitoring_tools_gpu_packages": [],
        "monitoring_tools_textfile_dir": "text",
        "monitoring_tools_manage": "true",
        "monitoring_tools_node_exporter": "no",
    }
    first, second, third = role_faults("monitoring_tools", given, {})
    assert first.startswith("[MT-102] monitoring_tools_packages has 'htop'")
    assert second.startswith("[MT-103] monitoring_tools_textfile_dir is 'text'")
    assert third.startswith("[MT-104] ")
    given["monitoring_tools_textfile_dir"] = "/srv/text"
    changed = {"monitoring_tools_manage": False, "monitoring_tools_node_exporter": True}
    assert role_faults("monitoring_tools", given | changed, {}) == []
