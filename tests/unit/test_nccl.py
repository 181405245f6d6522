"""Which NCCL: the choice among versions, the repository, what is installed."""

from __future__ import annotations

from typing import Any

import nccl_probe
import pytest
from ansible.module_utils.fullmesh.facts import nccl
from ansible.module_utils.fullmesh.packages import nccl as packages_nccl

from fullmesh.roles import nccl as roles_nccl

APT = {
    "libnccl2": ["2.30.7-1+cuda13.3", "2.30.7-1+cuda12.9", "2.28.9-1+cuda12.9"],
    "libnccl-dev": [
        "2.28.9-1+cuda12.9",
        "2.30.7-1+cuda12.9",
        "2.30.7-1+cuda13.3",
        "2.31.1-1+cuda13.3",
    ],
}


@pytest.mark.parametrize(
    ("wanted", "cuda", "chosen"),
    [
        ("", "", "2.30.7-1+cuda13.3"),
        ("", "12.9", "2.30.7-1+cuda12.9"),
        ("2.28.9", "", "2.28.9-1+cuda12.9"),
        ("2.30.7", "12.9", "2.30.7-1+cuda12.9"),
        ("2.30.7-1+cuda12.9", "", "2.30.7-1+cuda12.9"),
    ],
)
def test_the_newest_that_fits_and_that_all_packages_have(
    wanted: str, cuda: str, chosen: str
) -> None:
    assert nccl.choose_nccl_version(APT, wanted, cuda) == chosen


@pytest.mark.parametrize(("wanted", "cuda"), [("2.31.1", ""), ("2.28", ""), ("2.28.9", "13.3")])
def test_a_missing_version_is_refused_with_those_available(wanted: str, cuda: str) -> None:
    with pytest.raises(nccl.NcclError, match=r"only 2\.28\.9-1\+cuda12\.9, 2\.30\.7") as caught:
        nccl.choose_nccl_version(APT, wanted, cuda)
    assert caught.value.reason == "absent"


def test_versions_are_ordered_as_numbers() -> None:
    versions = ["2.9.1-1+cuda12.10", "2.10.0-1+cuda11.0", "2.9.1-1+cuda12.9"]
    ordered = sorted(versions, key=nccl.parse_nccl_version)
    assert ordered == ["2.9.1-1+cuda12.9", "2.9.1-1+cuda12.10", "2.10.0-1+cuda11.0"]


def answers(table: dict[str, tuple[int, str, str]]) -> Any:
    def run(argv: list[str]) -> tuple[int, str, str]:
        text = " ".join(argv)
        return next(
            (answer for words, answer in table.items() if words in text), (1, "", "unexpected")
        )

    return run


def params(manager: str, names: list[str], **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "names": names,
        "url": "file:///r",
        "version": "",
        "cuda": "",
    } | more


DPKG = """libnccl2\t2.28.9-1+cuda12.9\tinstalled\thold\tlibnccl2
libnccl-dev\t2.28.9-1+cuda12.9\tinstalled\tinstall\tlibnccl-dev
"""
MADISON = " libnccl2 | 2.30.7-1+cuda13.3 | file:/r  Packages\nlibnccl-dev | 2.30.7-1+cuda13.3 | file:/r  Packages\n"


def test_a_suitable_version_stays_without_a_query() -> None:
    run = answers({"dpkg-query": (0, DPKG, "")})
    seen = packages_nccl.observe_nccl_packages(run, params("apt", ["libnccl2", "libnccl-dev"]))
    assert seen["satisfied"]
    assert seen["version"] == "2.28.9-1+cuda12.9"
    assert seen["held"] == ["libnccl2"]


def test_apt_is_queried_with_separate_lists() -> None:
    table = {"dpkg-query": (1, "", ""), "update": (0, "", ""), "madison": (0, MADISON, "")}
    seen = packages_nccl.observe_nccl_packages(
        answers(table), params("apt", ["libnccl2", "libnccl-dev"])
    )
    assert (seen["satisfied"], seen["version"]) == (False, "2.30.7-1+cuda13.3")


def test_dnf_is_queried_through_its_library() -> None:
    listing = '[["libnccl", "2.28.9-1+cuda12.9"], ["libnccl-devel", "2.28.9-1+cuda12.9"]]\n'
    table = {
        "rpm": (2, "package libnccl is not installed\n", ""),
        "file:///r": (0, listing, ""),
        "import dnf": (0, "", ""),
    }
    seen = packages_nccl.observe_nccl_packages(
        answers(table), params("dnf", ["libnccl", "libnccl-devel"])
    )
    assert seen["version"] == "2.28.9-1+cuda12.9"


@pytest.mark.parametrize(
    ("table", "version", "message"),
    [
        (
            {"update": (100, "", "E: Failed to fetch file:/r/Packages\nE: Some index failed.")},
            "",
            "NC-102.*Packages",
        ),
        ({"update": (0, "", ""), "madison": (0, MADISON, "")}, "1.2.3", "NC-101.*only 2.30.7"),
    ],
)
def test_a_repository_that_does_not_help_is_named(table: Any, version: str, message: str) -> None:
    with pytest.raises(packages_nccl.NcclRepositoryError, match=message):
        packages_nccl.observe_nccl_packages(
            answers(table), params("apt", ["libnccl2"], version=version)
        )


def test_every_failure_of_a_library_has_a_code() -> None:
    assert set(nccl_probe.WORDS) == {"missing", "deadline", "crashed", "refused"}
    assert all("[NC-105]" in text for text in nccl_probe.WORDS.values())


def test_another_version_than_the_pinned_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        nccl_probe, "find_nccl_library", lambda *_: {"version": "2.27.3", "path": "/x/libnccl.so.2"}
    )
    asked = {"path": "", "version": "2.28.9", "endpoint": False, "env": {}, "seconds": 5}
    found, why = nccl_probe.probe_nccl(asked)
    assert found == {"version": "2.27.3", "path": "/x/libnccl.so.2"}
    assert "[NC-104] /x/libnccl.so.2 is NCCL 2.27.3, but 2.28.9 is pinned" in why
    assert nccl_probe.probe_nccl(asked | {"version": "2.27.3"}) == (found, "")


@pytest.mark.parametrize(
    ("url", "machine", "address"),
    [
        ("", "x86_64", "https://nvidia.example/rhel9/x86_64"),
        ("", "aarch64", "https://nvidia.example/rhel9/sbsa"),
        ("file:///srv/cuda/", "x86_64", "file:///srv/cuda"),
    ],
)
def test_a_mirror_wins_over_the_vendor(url: str, machine: str, address: str) -> None:
    assert (
        roles_nccl.choose_nccl_repository(url, "https://nvidia.example/rhel9/ARCH", machine)
        == address
    )


@pytest.mark.parametrize(
    ("key", "address", "file"),
    [
        ("", "https://m.example/r/D42D0685.pub", "/k/fullmesh-nccl.asc"),
        ("/srv/key.gpg", "file:///srv/key.gpg", "/k/fullmesh-nccl.gpg"),
        ("https://m.example/key.asc", "https://m.example/key.asc", "/k/fullmesh-nccl.asc"),
    ],
)
def test_the_key_keeps_the_suffix_that_apt_reads(key: str, address: str, file: str) -> None:
    found = roles_nccl.choose_key_address(key, "https://m.example/r", "D42D0685.pub")
    assert (found, roles_nccl.choose_key_file("/k", found)) == (address, file)


@pytest.mark.parametrize(
    "bad",
    [
        ("newest", "", "", ""),
        ("2.28", "", "", ""),
        ("", "cuda12", "", ""),
        ("", "", "mirror", ""),
        ("", "", "", "key"),
    ],
)
def test_settings_that_cannot_work_are_refused(bad: tuple[str, str, str, str]) -> None:
    assert [fault.code for fault in roles_nccl.find_nccl_faults(*bad)] == ["NC-103"]


def test_settings_that_can_work_are_not() -> None:
    assert (
        roles_nccl.find_nccl_faults(
            "2.28.9-1+cuda12.9", "12.9", "https://m.example/r", "/srv/key.gpg"
        )
        == []
    )
    assert roles_nccl.find_nccl_faults("", "", "", "") == []
