# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read, merge, write and verify kernel settings on a node. Standard library only."""

from __future__ import annotations

import os
import re
from typing import TypedDict

from .facts.sysctl import LAST_FILE, SysctlNode, normalize_value, sysctl_key_to_path
from .files import SPACE, split_lines, split_words
from .schema.ports import PortRange, parse_port_range, parse_port_ranges
from .schema.sysctl import KernelSetting, Rule

ASKED = "# asked for: "


class SysctlLine(TypedDict):
    """A line of a sysctl.d file. ``asked``: the requested value, if the file is Fullmesh's."""

    value: str
    asked: str | None


class SysctlVerdict(TypedDict):
    """A setting on this node.

    Attributes:
        before: the running value, None if there is no such key.
        seen: the value that was read back.
        asked: the requested value.
        target: the value to set, which includes the wishes of others.
        status: ``already``, ``kept`` (others want more), ``set``, ``cannot``, ``overridden``, ``refused``, ``clamped``.
        detail: the reason.
    """

    before: str | None
    target: str
    seen: str | None
    detail: str
    rule: Rule
    asked: str
    status: str


class KeyedSysctlVerdict(SysctlVerdict):
    """A verdict with its key."""

    key: str


def expand_port_ranges(text: str) -> set[int]:
    """Parse ``8080,30000-32767`` as the kernel prints it."""
    return {port for span in parse_port_ranges(text) for port in range(span.first, span.last + 1)}


def format_port_set(ports: set[int]) -> str:
    """Format ports like the kernel, so that values are easy to compare."""
    runs: list[PortRange] = []
    for port in sorted(ports):
        if runs and port == runs[-1].last + 1:
            runs[-1] = PortRange(runs[-1].first, port)
        else:
            runs.append(PortRange(port, port))
    return ",".join(map(str, runs))


def pick_larger_values(values: list[str]) -> str:
    """Return the larger of several values, number by number (``tcp_rmem`` has three)."""
    rows = [[int(number) for number in split_words(value)] for value in values if value]
    return " ".join(str(max(column)) for column in zip(*rows))


def parse_sysctl_file(text: str) -> dict[str, SysctlLine]:
    """Parse a sysctl.d file: path -> value, and the requested value if the file is Fullmesh's."""
    found: dict[str, SysctlLine] = {}
    asked = None
    for raw in split_lines(text):
        line = raw.strip(SPACE)
        if line.startswith(ASKED):
            asked = line[len(ASKED) :]
        if not line or line[0] in "#;" or "=" not in line:
            continue
        key, value = line.lstrip("-").split("=", 1)
        found[sysctl_key_to_path(key.strip(SPACE))] = {
            "value": normalize_value(value),
            "asked": asked,
        }
        asked = None
    return found


class OtherSysctlFiles:
    """Values that other files set at boot."""

    def __init__(self, node: SysctlNode, own: str) -> None:
        self.before: list[tuple[str, dict[str, SysctlLine]]] = []
        self.after: list[tuple[str, dict[str, SysctlLine]]] = []
        for path in node.conf_files():
            late = path == LAST_FILE or os.path.basename(path) > os.path.basename(own)
            if path != own:
                side = self.after if late else self.before
                side.append((path, parse_sysctl_file(node.text(path) or "")))

    def values(self, key: str) -> list[str]:
        """Return every value that other files set for a key."""
        path = sysctl_key_to_path(key)
        sides = self.before + self.after
        return [found[path]["value"] for _, found in sides if path in found]

    def override(self, key: str) -> tuple[str, str]:
        """Return the file and value that override Fullmesh's, or empty texts."""
        path = sysctl_key_to_path(key)
        for name, found in reversed(self.after):
            if path in found:
                return name, found[path]["value"]
        return "", ""


def is_satisfied(rule: Rule, target: str, seen: str | None) -> bool:
    """Return whether the value that was read back satisfies the rule."""
    if seen is None:
        return False
    if rule == "exact":
        return seen == target
    try:
        if rule == "ports":
            return expand_port_ranges(seen) >= expand_port_ranges(target)
        return pick_larger_values([seen, target]) == seen
    except ValueError:
        return False


def choose_target_value(
    setting: KernelSetting, running: str | None, mine: SysctlLine | None, others: list[str]
) -> str:
    """Choose the value to set: never below the administrator's value, and with others' ports.

    A running value that equals Fullmesh's own for the earlier request may be changed.
    """
    wanted = normalize_value(setting["value"])
    if setting["rule"] == "exact":
        return wanted
    if setting["rule"] == "ports":
        had = expand_port_ranges(running or "")
        if mine and mine["asked"] is not None:
            had -= expand_port_ranges(mine["asked"])
        for text in others:
            had |= expand_port_ranges(text)
        return format_port_set(had | expand_port_ranges(wanted))
    ours = mine and running == mine["value"] == mine["asked"]
    return pick_larger_values([wanted, *([] if ours else [running or ""]), *others])


def is_valid_port_list(text: str) -> bool:
    """Return whether the kernel would accept a port list that this module can parse.

    Foreign files may have any text.
    """
    return all(parse_port_range(part) for part in text.split(",") if part.strip(SPACE))


def filter_valid_values(rule: Rule, texts: list[str]) -> list[str]:
    """Drop values of other files that the kernel would reject as well."""
    if rule == "ports":
        return [text for text in texts if is_valid_port_list(text)]
    if rule == "floor":
        return [text for text in texts if re.match(r"^[0-9]+( [0-9]+)*$", text)]
    return texts


def compare_setting(
    node: SysctlNode, setting: KernelSetting, mine: SysctlLine | None, others: OtherSysctlFiles
) -> KeyedSysctlVerdict:
    """Compare one setting with the node. Writes nothing."""
    key = setting["key"]
    running = node.value(key)
    values = filter_valid_values(setting["rule"], others.values(key))
    target = choose_target_value(setting, running, mine, values)
    found: KeyedSysctlVerdict = {
        "key": key,
        "before": running,
        "target": target,
        "seen": running,
        "detail": "",
        "rule": setting["rule"],
        "asked": normalize_value(setting["value"]),
        "status": "",
    }
    name, last = others.override(key)
    blocked = node.why_not(key)
    if name and not is_satisfied(setting["rule"], target, last):
        found["status"], found["detail"] = "overridden", f"{name} sets {last!r}"
    elif is_satisfied("exact", target, running):
        found["status"] = "kept" if target != found["asked"] else "already"
    elif blocked:
        found["status"], found["detail"] = "cannot", blocked
    else:
        found["status"] = "set"
    return found


def drop_verdict_key(found: KeyedSysctlVerdict) -> SysctlVerdict:
    """Return the result of a setting without its key."""
    return {
        "before": found["before"],
        "target": found["target"],
        "seen": found["seen"],
        "detail": found["detail"],
        "rule": found["rule"],
        "asked": found["asked"],
        "status": found["status"],
    }


def apply_setting(node: SysctlNode, found: KeyedSysctlVerdict) -> None:
    """Write one value and read it back. The result is stored in *found*."""
    error = node.write(found["key"], found["target"])
    found["seen"] = node.value(found["key"])
    if error in ("EACCES", "EROFS", "EPERM"):
        found["status"], found["detail"] = "cannot", f"readonly ({error})"
    elif error:
        found["status"], found["detail"] = "refused", error
    elif not is_satisfied(found["rule"], found["target"], found["seen"]):
        found["status"], found["detail"] = (
            "clamped",
            "the kernel made it {!r}".format(found["seen"]),
        )


def render_sysctl_file(
    header: str, settings: list[KernelSetting], founds: list[KeyedSysctlVerdict]
) -> str:
    """Render the drop-in. Each line has its reason. A value that cannot be set here becomes a comment."""
    blocks = [header]
    for setting, found in zip(settings, founds):
        lines = ["# " + line for line in split_lines(setting["reason"])]
        lines.append(ASKED + found["asked"])
        line = "{} = {}".format(found["key"], found["target"])
        if found["status"] == "cannot":
            lines += ["# cannot be set on this node: {}".format(found["detail"]), "# " + line]
        else:
            lines.append(line)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
