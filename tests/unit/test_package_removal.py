"""Which packages an undo removes: apt's and dnf's own simulation, and what others need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.fullmesh.state import removal
from ansible.module_utils.fullmesh.state.errors import UndoError
from ansible.module_utils.fullmesh.state.observe import NodeSystem
from ansible.module_utils.fullmesh.state.record import KINDS, UndoPoint
from ansible.module_utils.fullmesh.state.undo import Restoration, forget_undo_point, remember_state

from fullmesh.settings import ROOT

# Recorded on lab nodes: apt 2.6 and dnf 4.14, LC_ALL=C. Blanks at the end of a line are left out.
APT = """\
Reading package lists...
Building dependency tree...
Reading state information...
The following packages will be REMOVED:
  ours-library theirs-application-with-a-name-that-is-rather-long
  theirs-plugin
The following held packages will be changed:
  theirs-plugin
0 upgraded, 0 newly installed, 3 to remove and 0 not upgraded.
Remv theirs-plugin [1]
Remv theirs-application-with-a-name-that-is-rather-long [1]
Remv ours-library [1]
"""
DNF = """\
Dependencies resolved.
================================================================================
 Package                                            Arch   Version
                                                                  Repo     Size
================================================================================
Removing:
 ours-library                                       noarch 1-1    @System   0
Removing dependent packages:
 theirs-application-with-a-name-that-is-rather-long noarch 1-1    @System   0
 theirs-plugin                                      noarch 1-1    @System   0

Transaction Summary
================================================================================
Remove  3 Packages

Freed space: 0
"""
PROTECTED = """\
Error:
 Problem: The operation would result in removing the following protected packages: dnf
(try to add '--skip-broken' to skip uninstallable packages or '--nobest' to use not only best candidate packages)
"""
NOTHING = "No packages marked for removal.\nDependencies resolved.\nNothing to do.\nComplete!\n"
GONE = {"ours-library", "theirs-application-with-a-name-that-is-rather-long", "theirs-plugin"}


def test_the_simulations_of_apt_and_dnf_are_read() -> None:
    assert removal.parse_apt_removal(APT) == GONE
    assert removal.parse_apt_removal("Purg libfw:amd64 [1.2]\n") == {"libfw"}
    assert removal.parse_dnf_removal(DNF, "Operation aborted.\n") == GONE
    assert removal.parse_dnf_removal(NOTHING) == set()
    assert removal.parse_dnf_removal("", PROTECTED) == {"dnf"}


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("libnvidia-gl:i386", "libnvidia-gl"),
        ("nvidia-driver.x86_64", "nvidia-driver"),
        ("python3.12", "python3.12"),
        ("libnccl2", "libnccl2"),
    ],
)
def test_an_architecture_is_no_part_of_a_name(name: str, bare: str) -> None:
    assert removal.strip_architecture(name) == bare


class PackageManager:
    """apt or dnf over packages that need each other, each entry a list of alternatives."""

    def __init__(self, root: Path, manager: str, needs: Mapping[str, Sequence[str]]) -> None:
        self.needs = dict(needs)
        self.manager = manager
        self.asked: list[list[str]] = []
        self.fails = ""
        (root / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
        (root / "var/lib/dpkg/status").write_text("Package: base\n" * (manager == "apt"))
        self.node = NodeSystem(str(root), self)

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        self.asked.append(command)
        if command[0] in ("rpm", "dpkg-query"):
            names = command[command.index("--") + 1 :] if "--" in command else list(self.needs)
            row = "1\tinstalled\tinstall\tx" if command[0] == "dpkg-query" else "1\t1\t0\tx86_64"
            return 0, "".join(f"{one}\t{row}\n" for one in names if one in self.needs), ""
        if "autoremove" in command:
            return 0, "".join(f"Remv {one} [1]\n" for one in self.needs), ""
        if self.fails:
            return 100, "", self.fails
        gone = self.closure(set(command[command.index("--") + 1 :]))
        if self.manager == "apt":
            return 0, "".join(f"Remv {one} [1]\n" for one in gone), ""
        return 1, "Removing:\n" + "".join(f" {one}  noarch 1-1\n" for one in gone), "aborted"

    def closure(self, gone: set[str]) -> list[str]:
        while True:
            more = {
                one
                for one, needed in self.needs.items()
                for alternatives in needed
                if set(alternatives.split("|")) <= gone
            }
            if more <= gone:
                return sorted(gone)
            gone |= more


MANAGERS = pytest.mark.parametrize("manager", ["apt", "dnf"])


@MANAGERS
def test_unneeded_packages_are_removed_in_one_simulation(tmp_path: Path, manager: str) -> None:
    found = PackageManager(tmp_path, manager, {"tool": ["library"], "library": [], "theirs": []})
    plan = removal.plan_removal(found.node, ["library", "tool", "absent"])
    assert plan == {"names": ["library", "tool", "absent"], "kept": []}
    assert len([one for one in found.asked if "remove" in one]) == 1
    assert removal.plan_removal(found.node, ["absent"])["kept"] == []
    assert len([one for one in found.asked if "remove" in one]) == 1


@MANAGERS
def test_a_package_that_others_need_stays_and_is_named(tmp_path: Path, manager: str) -> None:
    """firewall-config needs firewalld. The role's other packages are removed."""
    needs = {"firewall-config": ["firewalld"], "firewalld": [], "ipset": [], "applet": ["ipset"]}
    found = PackageManager(tmp_path, manager, needs)
    plan = removal.plan_removal(found.node, ["firewalld", "ipset"], ["applet"])
    kept = [{"package": "firewalld", "needed_by": ["firewall-config"]}]
    assert plan == {"names": ["ipset"], "kept": kept}
    (told,) = removal.describe_kept_packages("peer_firewall", kept)
    assert told.startswith("[UN-108] firewalld, which peer_firewall installed, was not removed")
    assert "(firewall-config)" in told


@MANAGERS
def test_dependencies_of_a_remaining_package_stay(tmp_path: Path, manager: str) -> None:
    needs = {"theirs": ["headers"], "headers": ["library"], "library": [], "tool": []}
    plan = removal.plan_removal(
        PackageManager(tmp_path, manager, needs).node, ["headers", "library", "tool"]
    )
    assert plan["names"] == ["tool"]
    assert plan["kept"] == [
        {"package": "headers", "needed_by": ["theirs"]},
        {"package": "library", "needed_by": ["theirs"]},
    ]


@MANAGERS
def test_one_of_two_that_others_need_stays_with_the_other(tmp_path: Path, manager: str) -> None:
    needs = {"theirs": ["one|two"], "one": [], "two": []}
    plan = removal.plan_removal(PackageManager(tmp_path, manager, needs).node, ["one", "two"])
    assert plan["names"] == []
    assert [one["package"] for one in plan["kept"]] == ["one", "two"]


def test_an_unclear_package_manager_is_refused(tmp_path: Path) -> None:
    found = PackageManager(tmp_path, "apt", {"tool": []})
    found.fails = "E: dpkg was interrupted"
    with pytest.raises(
        UndoError, match=r"\[UN-109\] apt-get .* tool fails: E: dpkg was interr.*Fix"
    ):
        removal.plan_removal(found.node, ["tool"])


@MANAGERS
def test_an_undo_keeps_shared_packages_and_removes_dependencies(
    tmp_path: Path, manager: str
) -> None:
    found = PackageManager(tmp_path, manager, {})
    names = {kind: [] for kind in KINDS} | {"packages": ["openmpi", "ipset"]}
    remember_state(found.node, "demo", names, check=False)
    # a plugin came with openmpi and needs it; a user installed libhdf5-openmpi
    found.needs = {"openmpi": [], "plugin": ["openmpi"], "ipset": []}
    record = UndoPoint(found.node.root, "demo").load()
    assert removal.list_new_packages(found.node, record) == ["ipset", "openmpi", "plugin"]
    back = Restoration(found.node, "demo", True, []).run()
    assert (back["remove_packages"], back["kept_packages"]) == (["ipset", "openmpi"], [])
    record["part"] = {"brought": ["ipset", "openmpi", "plugin"]}
    UndoPoint(found.node.root, "demo").save(record, {})
    found.needs["libhdf5-openmpi"] = ["openmpi"]
    back = Restoration(found.node, "demo", False, []).run()
    assert back["remove_packages"] == ["ipset"]
    assert back["kept_packages"] == [{"package": "openmpi", "needed_by": ["libhdf5-openmpi"]}]


def test_packages_that_apt_added_stay_if_others_need_them(tmp_path: Path) -> None:
    found = PackageManager(tmp_path, "apt", {})
    names = {kind: [] for kind in KINDS} | {"packages": ["openmpi"]}
    remember_state(found.node, "demo", names, check=False)
    record = UndoPoint(found.node.root, "demo").load()
    record["part"] = {"brought": ["libone", "libtwo"]}
    UndoPoint(found.node.root, "demo").save(record, {})
    found.needs = {"libone": [], "libtwo": [], "theirs": ["libtwo"]}
    gone = forget_undo_point(found.node, "demo", check=True)
    assert gone["swept"] == ["libone"]
    assert gone["kept_packages"] == [{"package": "libtwo", "needed_by": ["theirs"]}]


REMOVALS = re.compile(r"ansible\.builtin\.(apt|dnf|package|dnf5|yum)$")


def removed_names() -> dict[str, str]:
    """The names that each task removes, of every role and playbook."""
    found = {}
    paths = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    for path in sorted(paths):
        tasks = yaml.safe_load(path.read_text())
        for task in tasks if isinstance(tasks, list) else []:
            for module, arguments in task.items():
                if REMOVALS.match(module) and arguments.get("state") == "absent":
                    name = arguments["name"].strip("{} ")
                    wanted = task.get("vars", {}).get(name, name)
                    found[f"{path.relative_to(ROOT)}: {task['name']}"] = wanted
    return found


def test_every_undo_removes_exactly_what_was_simulated() -> None:
    """`undo_point` and `package_family` return only names whose removal takes no package of others along."""
    found = removed_names()
    assert len(found) > 8
    through = ("remove_packages", "__nvidia_driver_gone")
    assert [task for task, name in found.items() if not any(one in name for one in through)] == []
    undo = (ROOT / "roles/nvidia_driver/tasks/undo.yml").read_text()
    assert (
        "__nvidia_driver_undo['remove_packages'] | union(__nvidia_driver_family['remove'])" in undo
    )
