"""The role monitoring_tools: what is wrong with its settings, and what it owns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.model.faults import Fault

CODES: dict[str, str] = {
    "MT-101": "a monitoring tool that no repository of the node has",
    "MT-102": "a list of monitoring tools that is none, or holds something that is no package's name",
}
# What rpm and dpkg both take, and dnf's groups (@) besides.
NAME = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._+:-]*")


def faults(settings: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the lists of packages, by the name of the setting.

    ``-e monitoring_tools_packages=htop`` is a text: joined with a list it fails in the middle of a run, and as a list
    of letters it would be worse.
    """
    found = []
    for setting, value in settings.items():
        listed = not isinstance(value, str | Mapping) and isinstance(value, Sequence)
        wrong = [one for one in value if not NAME.fullmatch(str(one))] if listed else [value]
        if wrong:
            step = "Give a list of package names, like [nload, iftop]"
            found.append(Fault("MT-102", f"{setting} has {wrong[0]!r}", step))
    return found


def owned(packages: Sequence[str]) -> dict[str, str]:
    """The packages as the manifest watches them: any version."""
    return dict.fromkeys(packages, "")
