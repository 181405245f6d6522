"""Read the restrictions of systemd for ``fullmesh-job@``, including all drop-ins.

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

# An unused instance: systemd answers from the template and its drop-ins, and starts nothing.
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
    """Parse Environment= as ``systemctl show`` prints it (``A=b "C=d e"``), for names that matter to a job."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = split_words(text)
    return {name: value for word in words for name, value in parse_assignments(word).items()}


def parse_job_unit(text: str) -> JobUnit | None:
    """Parse the output of ``systemctl show``. None for a missing unit."""
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
    """Query systemd. None without systemd or the unit."""
    done = subprocess.run(
        systemctl.build_show_command(ASKED, [UNIT]),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    return parse_job_unit(done.stdout.decode("utf-8", "replace"))
