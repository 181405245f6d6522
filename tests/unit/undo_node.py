"""Shared by the tests of undo points: a node with a simulated systemd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.module_utils.fullmesh.state import undo

HOSTS = "/etc/hosts"


STATES = {
    "enabled and running": {
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "enabled",
    },
    "disabled": {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "disabled"},
    "masked": {"LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked"},
    "static": {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "static"},
    "gone": {"LoadState": "not-found", "ActiveState": "inactive", "UnitFileState": ""},
}
Answer = tuple[int, str, str]


def select_state(**names: list[str]) -> dict[str, list[str]]:
    return {kind: names.get(kind, []) for kind in undo.KINDS}


def format_dpkg_row(name: str, version: str = "1.2", state: str = "installed") -> str:
    return f"{name}\t{version}\t{state}\tinstall\t{name}\n"


class SimulatedSystemd:
    """Simulate systemctl and dpkg-query, and record the commands."""

    def __init__(self) -> None:
        self.units: dict[str, dict[str, str]] = {}
        self.installed: list[str] = []
        self.commands: list[list[str]] = []
        self.refuse: str = ""
        self.unneeded: list[str] = []
        self.needs: dict[str, list[str]] = {}

    def __call__(self, command: list[str]) -> Answer:
        self.commands.append(command)
        if command[:2] == ["systemctl", "show"]:
            return (
                0,
                "\n".join(self.format_unit(name) for name in command[command.index("--") + 1 :]),
                "",
            )
        if command[0] == "apt-get":
            names = self.list_removed_packages(command) if "remove" in command else self.unneeded
            return 0, "".join(f"Remv {name} [1.2]\n" for name in names), ""
        if command[0] == "dpkg-query" and "--" not in command:
            return (
                0,
                "".join(map(format_dpkg_row, self.installed))
                + format_dpkg_row("old", state="config-files"),
                "",
            )
        if command[0] == "dpkg-query":
            names = command[command.index("--") + 1 :]
            return 1, "".join(format_dpkg_row(n) for n in names if n in self.installed), "no such"
        if command[1] == self.refuse:
            return 1, "", "Access denied"
        return 0, "", ""

    def list_removed_packages(self, command: list[str]) -> list[str]:
        """List the packages of a simulated removal, with the packages that need them."""
        found = [name for name in command[command.index("--") + 1 :] if name in self.installed]
        for name in found:
            needing = [other for other, needed in self.needs.items() if name in needed]
            found += [other for other in needing if other not in found]
        return found

    def format_unit(self, name: str) -> str:
        unit = self.units.get(name, {"LoadState": "not-found", "ActiveState": "inactive"})
        return "".join(f"{key}={value}\n" for key, value in unit.items())

    def list_unit_commands(self) -> list[list[str]]:
        return [c[1:] for c in self.commands if c[0] == "systemctl" and c[1] != "show"]


def write_file(node: undo.NodeSystem, path: str, content: str, mode: int = 0o644) -> Path:
    file = Path(node.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)
    return file


def restore_state(
    node: undo.NodeSystem, check: bool = False, restart: tuple[str, ...] = ()
) -> dict[str, Any]:
    result: dict[str, Any] = undo.Restoration(node, "demo", check, list(restart)).run()
    return result


def remove_hosts(node: undo.NodeSystem) -> None:
    Path(node.at(HOSTS)).unlink()


def replace_hosts_by_link(node: undo.NodeSystem) -> None:
    remove_hosts(node)
    Path(node.at(HOSTS)).symlink_to("/elsewhere")


def change_hosts_mode(node: undo.NodeSystem) -> None:
    Path(node.at(HOSTS)).chmod(0o600)


ROLE_FILE = "/etc/netplan/90-ours.yaml"


def run_role(node: undo.NodeSystem, **files: str) -> None:
    """Run a role: save the state, write files, record them."""
    undo.remember_state(node, "demo", select_state(files=[HOSTS, ROLE_FILE]), check=False)
    for path, content in {HOSTS: "ours\n", ROLE_FILE: "ours\n", **files}.items():
        write_file(node, path, content)
    assert undo.record_written_files(node, "demo", check=False)["changed"] is False


def list_kept_files(node: undo.NodeSystem, path: str) -> list[str]:
    """Return the contents of the files that an undo has kept next to a file, sorted by name."""
    file = Path(node.at(path))
    return [one.read_text() for one in sorted(file.parent.glob("*fullmesh-kept*"))]
