# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the properties of units from systemctl(1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def build_show_command(properties: Sequence[str], units: Sequence[str] = ()) -> list[str]:
    """Build the command that shows properties of units, or of systemd itself."""
    command = ["systemctl", "show", "--no-pager", "--property=" + ",".join(properties)]
    return [*command, "--", *units] if units else command


def parse_properties(text: str) -> dict[str, str]:
    """Parse ``systemctl show`` of one unit, or of systemd itself.

    A value can contain white space that ``str.strip`` and ``str.splitlines`` take for more than they are.
    """
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def parse_unit_blocks(text: str) -> list[dict[str, str]]:
    """Parse ``systemctl show`` of several units: the properties of each, in the order of the command."""
    return [parse_properties(block) for block in text.split("\n\n") if block.strip("\n")]
