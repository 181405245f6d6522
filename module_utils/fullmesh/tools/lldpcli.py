# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read from lldpcli(8) the neighbors that lldpd has heard. lldpcli starts no daemon: without one, it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..foreign_text import parse_foreign_json
from ..node_values import INTERFACE_NAME, MAC, OWN_NAME, SWITCH_PORT

if TYPE_CHECKING:
    import re

    from ..schema.first_look import LldpNeighbor

# json0 has a list on every level, also for one neighbor. lldpcli itself waits for a hung daemon forever
SHOW_NEIGHBORS = ["timeout", "5", "lldpcli", "-f", "json0", "show", "neighbors"]
# kinds of a port's identifier that name it. Others are its address, or an alias
NAMES = ("local", "ifname")


def parse_neighbors(text: str) -> list[LldpNeighbor]:
    """Parse `SHOW_NEIGHBORS`. Values that do not match the patterns are omitted: a neighbor can send any text.

    Raises:
        ValueError: it is no JSON, or too large.
    """
    found: list[LldpNeighbor] = []
    for part in _list_entries(parse_foreign_json(text), "lldp"):
        for entry in _list_entries(part, "interface"):
            nic = entry.get("name")
            if not isinstance(nic, str) or not INTERFACE_NAME.match(nic):
                continue
            mac = system = name = ""
            for chassis in _list_entries(entry, "chassis"):
                system = system or _pick_text(chassis, "name", OWN_NAME)
            for port in _list_entries(entry, "port"):
                mac = mac or _pick_text(port, "id", MAC, "mac").lower()
                name = name or _pick_text(port, "id", SWITCH_PORT, *NAMES)
                name = name or _pick_text(port, "descr", SWITCH_PORT)
            if mac or (system and name):
                found.append({"nic": nic, "mac": mac, "system": system, "port": name})
    return found


def _list_entries(value: object, key: str) -> list[dict[str, object]]:
    """Return the mappings in a list of a mapping."""
    held = value.get(key) if isinstance(value, dict) else None
    return [one for one in held if isinstance(one, dict)] if isinstance(held, list) else []


def _pick_text(value: dict[str, object], key: str, pattern: re.Pattern[str], *kinds: str) -> str:
    """Return the first text below *key* that matches and is of one of the kinds, "" if there is none."""
    for one in _list_entries(value, key):
        text = one.get("value")
        if (
            isinstance(text, str)
            and pattern.match(text)
            and (not kinds or one.get("type") in kinds)
        ):
            return text
    return ""
