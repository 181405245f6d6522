# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read devices and connection profiles of NetworkManager from nmcli(1)."""

from __future__ import annotations

from ..files import SPACE

SHOW_ACTIVE = ["nmcli", "--terse", "--fields", "DEVICE,UUID", "connection", "show", "--active"]


def build_value_command(field: str, kind: str, name: str) -> list[str]:
    """Build the command that shows one value of a ``device`` or a ``connection``."""
    return ["nmcli", "--terse", "--get-values", field, kind, "show", name]


def parse_value(text: str) -> str:
    """Parse `build_value_command`'s output. The first of several values counts."""
    return text.strip(SPACE)


def parse_active_profiles(text: str) -> dict[str, str]:
    """Parse `SHOW_ACTIVE`: the uuid of the profile of each device."""
    # a colon in the name of a device is escaped, and a uuid has none
    rows = [line.rpartition(":") for line in text.splitlines()]
    return {device: profile for device, _, profile in rows if profile}
