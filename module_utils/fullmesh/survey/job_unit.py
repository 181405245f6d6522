"""The place that jobs run in as a unit: what systemd will hold ``fullmesh-job@`` to, whoever's drop-ins are in force.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

from ..files import split_words
from ..foreign_text import parse_decimal
from ..tools import systemctl
from .job import parse_assignments

if TYPE_CHECKING:
    from ..schema.survey import JobUnit

# An instance that nobody has; systemd answers from the template and its drop-ins, and starts nothing.
UNIT = "fullmesh-job@fullmesh-look.service"
ASKED = (
    "LoadState",
    "DropInPaths",
    "LimitNOFILE",
    "IPAddressAllow",
    "IPAddressDeny",
    "PrivateNetwork",
    "RestrictAddressFamilies",
    "Environment",
)
SECONDS = 5
ENDLESS = -1


def parse_unit_environment(text: str) -> dict[str, str]:
    """Read ``A=b "C=d e"`` as ``systemctl show`` prints Environment=; only names that matter to a job."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = split_words(text)
    return {name: value for word in words for name, value in parse_assignments(word).items()}


def parse_job_unit(text: str) -> JobUnit | None:
    """What ``systemctl show`` prints; None for a unit that is not there."""
    said = systemctl.parse_properties(text)
    if said.get("LoadState") != "loaded":
        return None
    files = said.get("LimitNOFILE", "")
    return {
        "drop_ins": split_words(said.get("DropInPaths", "")),
        "nofile": ENDLESS if (number := parse_decimal(files)) is None else number,
        "allow": split_words(said.get("IPAddressAllow", "")),
        "deny": split_words(said.get("IPAddressDeny", "")),
        "own_network": said.get("PrivateNetwork") == "yes",
        "families": said.get("RestrictAddressFamilies", ""),
        "environment": parse_unit_environment(said.get("Environment", "")),
    }


def survey_job_unit() -> JobUnit | None:
    """Ask systemd; None where there is none, or no such unit."""
    done = subprocess.run(
        systemctl.build_show_command(ASKED, [UNIT]),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    return parse_job_unit(done.stdout.decode("utf-8", "replace"))
