"""What the tests of undo points share: a node with a simulated systemd."""

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


def wanted(**names: list[str]) -> dict[str, list[str]]:
    return {kind: names.get(kind, []) for kind in undo.KINDS}


def dpkg_row(name: str, version: str = "1.2", state: str = "installed") -> str:
    return f"{name}\t{version}\t{state}\tinstall\t{name}\n"


class Systemd:
    """Stands for systemctl and dpkg-query; remembers what was asked."""

    def __init__(self) -> None:
        self.units: dict[str, dict[str, str]] = {}
        self.installed: list[str] = []
        self.asked: list[list[str]] = []
        self.refuse: str = ""
        self.unneeded: list[str] = []
        self.needs: dict[str, list[str]] = {}

    def __call__(self, command: list[str]) -> Answer:
        self.asked.append(command)
        if command[:2] == ["systemctl", "show"]:
            return 0, "\n".join(self.block(name) for name in command[command.index("--") + 1 :]), ""
        if command[0] == "apt-get":
            names = self.going(command) if "remove" in command else self.unneeded
            return 0, "".join(f"Remv {name} [1.2]\n" for name in names), ""
        if command[0] == "dpkg-query" and "--" not in command:
            return (
                0,
                "".join(map(dpkg_row, self.installed)) + dpkg_row("old", state="config-files"),
                "",
            )
        if command[0] == "dpkg-query":
            names = command[command.index("--") + 1 :]
            return 1, "".join(dpkg_row(n) for n in names if n in self.installed), "no such"
        if command[1] == self.refuse:
            return 1, "", "Access denied"
        return 0, "", ""

    def going(self, command: list[str]) -> list[str]:
        """What goes with the packages that a simulation names: they, and who needs them."""
        found = [name for name in command[command.index("--") + 1 :] if name in self.installed]
        for name in found:
            needing = [other for other, needed in self.needs.items() if name in needed]
            found += [other for other in needing if other not in found]
        return found

    def block(self, name: str) -> str:
        unit = self.units.get(name, {"LoadState": "not-found", "ActiveState": "inactive"})
        return "".join(f"{key}={value}\n" for key, value in unit.items())

    def verbs(self) -> list[list[str]]:
        return [c[1:] for c in self.asked if c[0] == "systemctl" and c[1] != "show"]


def put(node: undo.NodeSystem, path: str, content: str, mode: int = 0o644) -> Path:
    file = Path(node.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)
    return file


def restore(
    node: undo.NodeSystem, check: bool = False, restart: tuple[str, ...] = ()
) -> dict[str, Any]:
    result: dict[str, Any] = undo.Restoration(node, "demo", check, list(restart)).run()
    return result


def remove(node: undo.NodeSystem) -> None:
    Path(node.at(HOSTS)).unlink()


def replace_by_link(node: undo.NodeSystem) -> None:
    remove(node)
    Path(node.at(HOSTS)).symlink_to("/elsewhere")


def change_mode(node: undo.NodeSystem) -> None:
    Path(node.at(HOSTS)).chmod(0o600)


OURS = "/etc/netplan/90-ours.yaml"


def role_runs(node: undo.NodeSystem, **files: str) -> None:
    """What a role does: remember, write, note."""
    undo.remember_state(node, "demo", wanted(files=[HOSTS, OURS]), check=False)
    for path, content in {HOSTS: "ours\n", OURS: "ours\n", **files}.items():
        put(node, path, content)
    assert undo.record_written_files(node, "demo", check=False)["changed"] is False


def beside(node: undo.NodeSystem, path: str) -> list[str]:
    """What an undo has kept beside a file, in order."""
    file = Path(node.at(path))
    return [one.read_text() for one in sorted(file.parent.glob("*fullmesh-kept*"))]
