"""Packages of a driver's family: the versions before and after a role's change, and their restoration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from ansible.module_utils.fullmesh.packages import family
from ansible.module_utils.fullmesh.state.observe import NodeSystem
from ansible.module_utils.fullmesh.state.record import KINDS, Kind, UndoPoint
from ansible.module_utils.fullmesh.state.undo import forget_undo_point, remember_state

from fullmesh.contract import convert_value
from fullmesh.observed.family import PackageFamily
from fullmesh.observed.gpu import GpuFacts
from fullmesh.roles import nvidia_driver
from fullmesh.settings import ROOT

ROLE = "nvidia_driver"


def words(text: str) -> list[str]:
    """Split a text into a list of names."""
    return text.split()


# Names from packages.ubuntu.com (noble, -server) and from NVIDIA's repository for RHEL 9.
OF_UBUNTU = words("""\
nvidia-driver-535-server nvidia-dkms-535-server nvidia-kernel-source-535-server nvidia-kernel-common-535-server
nvidia-firmware-535-server-535.216.03 nvidia-compute-utils-535-server nvidia-utils-535-server libnvidia-cfg1-535-server
libnvidia-common-535-server libnvidia-compute-535-server libnvidia-decode-535-server libnvidia-nscq-535
xserver-xorg-video-nvidia-535-server linux-modules-nvidia-535-server-generic nvidia-fabricmanager-535
linux-objects-nvidia-535-server-6.8.0-45-generic linux-signatures-nvidia-6.8.0-45-generic cuda-drivers cuda-drivers-580
nvidia-open nvidia-open-580 nvidia-driver-pinning-580 nvidia-modprobe nvidia-persistenced libnvidia-gpucomp
""")
OF_EL = words("""\
nvidia-driver nvidia-driver-cuda nvidia-driver-cuda-libs nvidia-driver-libs nvidia-kmod-common kmod-nvidia-open-dkms
kmod-nvidia-latest-dkms kmod-nvidia-580.95.05-5.14.0-570.12.1 nvidia-modprobe nvidia-persistenced nvidia-settings
libnvidia-cfg libnvidia-fbc libnvidia-gpucomp libnvidia-ml nvidia-fabric-manager nvidia-fabricmanager-580
libnvidia-nscq-580 nvidia-open nvidia-open-580 cuda-drivers cuda-drivers-580 nvidia-libXNVCtrl
nvidia-xconfig nvidia-imex
""")
NOT_OURS = words("""\
nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container1 libnvidia-container-tools nvidia-docker2
nvidia-cuda-toolkit nvidia-cuda-dev nvidia-prime libnvidia-container-devel cuda-toolkit-12-6 libnccl2 nvtop
dnf-plugin-nvidia
""")


def patterns(system: str) -> list[str]:
    text = (ROOT / f"roles/nvidia_driver/vars/{system}.yml").read_text()
    return convert_value(
        nvidia_driver.DriverOffers, yaml.safe_load(text)["__nvidia_driver_offers"]
    )["family"]


@pytest.mark.parametrize(
    ("system", "names"),
    [("Ubuntu", OF_UBUNTU), ("RedHat_9", OF_EL), ("RedHat_10", OF_EL)],
)
def test_a_driver_consists_of_all_its_packages_only(system: str, names: list[str]) -> None:
    of_driver = patterns(system)
    assert [name for name in names if not family.is_family_package(name, of_driver)] == []
    assert [name for name in NOT_OURS if family.is_family_package(name, of_driver)] == []


class Machine:
    """A node with a simulated package database."""

    def __init__(self, root: Path, dpkg: bool, versions: Mapping[str, str]) -> None:
        self.versions = dict(versions)
        self.dpkg = dpkg
        if dpkg:
            (root / "var/lib/dpkg").mkdir(parents=True)
            (root / "var/lib/dpkg/status").write_text("Package: dpkg\n")
        self.node = NodeSystem(str(root), self.run)

    def run(self, command: list[str]) -> tuple[int, str, str]:
        """Print like dpkg-query and rpm in the forms that are used. A removed package keeps its row in dpkg."""
        if "autoremove" in command:
            return 0, "", ""
        if "remove" in command:
            names = command[command.index("--") + 1 :]
            lines = [f"Remv {name}" if self.dpkg else f" {name}  x" for name in names]
            return 0, "\n".join(["Removing:", *lines]), ""
        if command[0] == "dpkg-query" and "--" in command:
            names = command[command.index("--") + 1 :]
            return 0, "".join(f"{name}\t1\tinstalled\tinstall\t{name}\n" for name in names), ""
        if command[0] == "dpkg-query":
            rows = [
                f"{name.partition(':')[0]}\t{version}\tinstalled\tinstall\t{name}"
                for name, version in self.versions.items()
            ]
            gone = "nvidia-driver-390\t390.1\tconfig-files\tdeinstall\tnvidia-driver-390"
            return 0, "\n".join([*rows, gone]) + "\n", ""
        if "--" in command:
            names = command[command.index("--") + 1 :]
            return 0, "".join(f"{name}\t1\t1\t0\tx86_64\n" for name in names), ""
        assert (command[:2], command[-1]) == (["rpm", "--query"], "--all")
        rows = [
            re.sub(r"(.*)\.(.*) (.*):(.*)-(.*)", r"\1\t\4\t\5\t\3\t\2", f"{name} {version}")
            for name, version in self.versions.items()
        ]
        return 0, "\n".join(rows) + "\n", ""


OLD_APT = {
    "nvidia-driver-535-server": "535.216.03-0ubuntu1",
    "libnvidia-compute-535-server:amd64": "535.216.03-0ubuntu1",
    "nvidia-container-toolkit": "1.16.2-1",
}
NEW_APT = {
    "nvidia-driver-580-server-open": "580.95.05-0ubuntu1",
    "libnvidia-compute-580-server:amd64": "580.95.05-0ubuntu1",
    "nvidia-container-toolkit": "1.17.0-1",
}
OLD_DNF = {
    "nvidia-driver.x86_64": "3:535.216.03-1.el9",
    "kmod-nvidia-latest-dkms.x86_64": "3:535.216.03-1.el9",
}
NEW_DNF = {
    "nvidia-driver.x86_64": "3:580.95.05-1.el9",
    "kmod-nvidia-open-dkms.x86_64": "3:580.95.05-1.el9",
}


def make_point(machine: Machine) -> None:
    """Make the role's undo point, as before its first change."""
    wanted: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
    remember_state(machine.node, ROLE, {**wanted, "files": ["/etc/modprobe.d/x.conf"]}, False)


def installed_over(machine: Machine, new: Mapping[str, str], system: str) -> None:
    """Do the role's steps: undo point, previous versions, packages, new versions."""
    make_point(machine)
    family.remember_family(machine.node, ROLE, patterns(system), False)
    machine.versions = dict(new)
    family.record_family(machine.node, ROLE, patterns(system), False)


class Case(NamedTuple):
    """A node, and the commands that restore its previous driver."""

    dpkg: bool
    system: str
    old: dict[str, str]
    new: dict[str, str]
    install: list[str]
    remove: list[str]


CASES = {
    "apt": Case(
        True,
        "Ubuntu",
        OLD_APT,
        NEW_APT,
        [
            "libnvidia-compute-535-server:amd64=535.216.03-0ubuntu1",
            "nvidia-driver-535-server=535.216.03-0ubuntu1",
        ],
        ["libnvidia-compute-580-server:amd64", "nvidia-driver-580-server-open"],
    ),
    "dnf": Case(
        False,
        "RedHat_9",
        OLD_DNF,
        NEW_DNF,
        [
            "kmod-nvidia-latest-dkms-3:535.216.03-1.el9.x86_64",
            "nvidia-driver-3:535.216.03-1.el9.x86_64",
        ],
        ["kmod-nvidia-open-dkms.x86_64"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_another_branch_is_restored(tmp_path: Path, case: Case) -> None:
    machine = Machine(tmp_path, case.dpkg, case.old)
    installed_over(machine, case.new, case.system)
    found = family.compare_family(machine.node, ROLE, patterns(case.system))
    assert (found["install"], found["remove"], found["kept"]) == (case.install, case.remove, [])
    assert convert_value(PackageFamily, found) == found


def test_later_changes_of_others_stay(tmp_path: Path) -> None:
    machine = Machine(tmp_path, True, OLD_APT)
    installed_over(machine, NEW_APT, "Ubuntu")
    machine.versions["nvidia-driver-580-server-open"] = "580.105.08-0ubuntu1"
    machine.versions["nvidia-fabricmanager-580"] = "580.105.08-1"
    found = family.compare_family(machine.node, ROLE, patterns("Ubuntu"))
    assert found["kept"] == ["nvidia-driver-580-server-open", "nvidia-fabricmanager-580"]
    assert found["remove"] == ["libnvidia-compute-580-server:amd64"]
    (words,) = family.describe_family_warnings(found, ROLE)
    assert words.startswith("[UN-106] nvidia-driver-580-server-open, nvidia-fabricmanager-580: ")
    assert family.describe_family_warnings({**found, "kept": []}, ROLE) == []


def test_a_role_that_was_killed_before_its_note_left_everything(tmp_path: Path) -> None:
    machine = Machine(tmp_path, True, OLD_APT)
    installed_over(machine, NEW_APT, "Ubuntu")
    point = UndoPoint(machine.node.root, ROLE)
    record = point.load()
    del record["part"]["family"]["ours"]
    point.save(record, {})
    machine.versions["nvidia-fabricmanager-580"] = "580.95.05-1"
    found = family.compare_family(machine.node, ROLE, patterns("Ubuntu"))
    assert "nvidia-fabricmanager-580" in found["remove"]
    assert found["kept"] == []


def test_the_first_versions_are_the_ones_of_before(tmp_path: Path) -> None:
    machine = Machine(tmp_path, True, OLD_APT)
    installed_over(machine, NEW_APT, "Ubuntu")
    installed_over(machine, {"nvidia-driver-590": "590.44-1"}, "Ubuntu")
    found = family.compare_family(machine.node, ROLE, patterns("Ubuntu"))
    assert "nvidia-driver-535-server=535.216.03-0ubuntu1" in found["install"]
    assert found["remove"] == ["nvidia-driver-590"]


def test_nothing_is_removed_if_nothing_was_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, True, OLD_APT)
    assert family.compare_family(machine.node, ROLE, patterns("Ubuntu"))["install"] == []
    family.remember_family(machine.node, ROLE, patterns("Ubuntu"), False)
    assert not UndoPoint(machine.node.root, ROLE).exists()


def test_check_mode_stores_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, True, OLD_APT)
    make_point(machine)
    family.remember_family(machine.node, ROLE, patterns("Ubuntu"), True)
    family.record_family(machine.node, ROLE, patterns("Ubuntu"), True)
    assert "family" not in UndoPoint(machine.node.root, ROLE).load()["part"]


def test_a_removed_undo_point_has_no_family(tmp_path: Path) -> None:
    machine = Machine(tmp_path, True, OLD_APT)
    installed_over(machine, NEW_APT, "Ubuntu")
    forget_undo_point(machine.node, ROLE, False)
    assert family.compare_family(machine.node, ROLE, patterns("Ubuntu"))["install"] == []


def test_locks_name_each_version_without_its_epoch(tmp_path: Path) -> None:
    found = family.observe_family(Machine(tmp_path, False, NEW_DNF).node, patterns("RedHat_9"))
    assert found["locks"] == {
        "nvidia-driver": "580.95.05-1.el9",
        "kmod-nvidia-open-dkms": "580.95.05-1.el9",
    }


# The format of dnf 4 (dnf.modularity(7)), and a broken file.
STREAM = "[nvidia-driver]\nname=nvidia-driver\nstream=535-dkms\nprofiles=default\nstate=enabled\n"


def test_the_enabled_stream_is_seen(tmp_path: Path) -> None:
    node = Machine(tmp_path, False, {}).node
    folder = tmp_path / "etc/dnf/modules.d"
    assert family.list_enabled_streams(node) == {}
    folder.mkdir(parents=True)
    (folder / "nvidia-driver.module").write_text(STREAM)
    (folder / "nodejs.module").write_text(
        "[nodejs]\nname=nodejs\nstream=\nprofiles=\nstate=disabled\n"
    )
    (folder / "broken.module").write_text("no section\n")
    assert family.list_enabled_streams(node) == {"nvidia-driver": "535-dkms"}


def make_family(**change: Any) -> PackageFamily:
    bare: PackageFamily = {
        "versions": {},
        "locks": {},
        "streams": {},
        "install": [],
        "remove": [],
        "needed": [],
        "kept": [],
    }
    return convert_value(PackageFamily, {**bare, **change})


@pytest.mark.parametrize(
    ("enabled", "install", "leave"),
    [
        ({}, ["@nvidia-driver:580-open"], ""),
        ({"nvidia-driver": "580-open"}, ["@nvidia-driver:580-open"], ""),
        ({"nvidia-driver": "535-dkms"}, ["@nvidia-driver:580-open"], "nvidia-driver:535-dkms"),
        ({"nvidia-driver": "535-dkms"}, [], ""),
        ({"nvidia-driver": "535-dkms"}, ["kmod-mine"], ""),
    ],
)
def test_a_stream_of_another_branch_is_unchanged(
    enabled: dict[str, str], install: list[str], leave: str
) -> None:
    text = (ROOT / "roles/nvidia_driver/vars/RedHat_9.yml").read_text()
    offers = convert_value(
        nvidia_driver.DriverOffers, yaml.safe_load(text)["__nvidia_driver_offers"]
    )
    assert (
        nvidia_driver.find_blocking_stream(install, offers, make_family(streams=enabled)) == leave
    )


def test_a_fabric_manager_that_is_here_is_not_installed_again() -> None:
    there = {"nvidia-fabricmanager-580": "580.95.05-1", "libnvidia-nscq-580:amd64": "580.95.05-1"}
    assert (
        nvidia_driver.list_missing_packages(
            ["nvidia-fabricmanager-580"], make_family(versions=there)
        )
        == []
    )
    assert nvidia_driver.list_missing_packages(
        ["nvidia-fabricmanager-590"], make_family(versions=there)
    ) == ["nvidia-fabricmanager-590"]
    held = {"nvidia-fabricmanager": "580.95.05-1"}
    assert nvidia_driver.list_missing_packages(
        ["nvidia-fabricmanager-580*"], make_family(locks=held)
    ) == ["nvidia-fabricmanager-580*"]
    held = {"nvidia-fabricmanager-580": "580.95.05-1"}
    assert (
        nvidia_driver.list_missing_packages(["nvidia-fabricmanager-580*"], make_family(locks=held))
        == []
    )


def test_a_job_that_computes_keeps_its_driver_from_an_undo() -> None:
    facts: Any = {"smi": {"processes": [{"pid": 7, "name": "python"}]}}
    busy: GpuFacts = facts
    (fault,) = nvidia_driver.find_undo_faults(busy, make_family(remove=["nvidia-driver-580"]))
    assert (fault.code, "pid 7" in fault.text) == ("ND-105", True)
    assert nvidia_driver.find_undo_faults(busy, make_family()) == []
