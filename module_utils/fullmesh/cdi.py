# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Create the specification that gives containers a node's NVIDIA GPUs (Container Device Interface).

NVIDIA's container toolkit writes it. Since 1.18 a systemd unit does so at boot and after changes of the driver or the
toolkit. Earlier versions require a call of ``nvidia-ctk cdi generate``. The driver's libraries have its version in
their names, so a specification from before a driver update is wrong. Runs on nodes: standard library only.
"""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING, TypedDict

from .answer import diff_file, make_diff
from .files import read_text_or_empty, write_file_atomically

if TYPE_CHECKING:
    from .answer import Diff
    from .commands import SplitRunner
    from .schema.toolkit import CdiState

FOLDERS = ("etc/cdi", "run/cdi")
KIND = "nvidia.com/gpu"
# The path for toolkits without a unit.
PLACE = "/etc/cdi/nvidia.yaml"
UNITS = ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")
DRIVER = "proc/driver/nvidia/version"
TOOL = "nvidia-ctk"


class CdiError(Exception):
    """A coded sentence for the user."""


class CdiResult(TypedDict):
    """The changes, and the node's state."""

    changed: bool
    devices: CdiState
    diff: Diff


def read_loaded_driver(root: str) -> str:
    """Return the version of the loaded driver, or ""."""
    text = read_text_or_empty(os.path.join(root, DRIVER))
    found = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", text, re.MULTILINE)
    return found.group(1) if found else ""


def is_spec_for_driver(text: str, version: str) -> bool:
    """Return whether a specification describes NVIDIA's GPUs with this driver."""
    number = re.search(rf"(?<!\d)(?<!\d\.){re.escape(version)}(?![\d]|\.\d)", text)
    return KIND in text and number is not None


def inspect_cdi_spec(root: str = "/") -> CdiState:
    """Return the node's present specification and driver."""
    version = read_loaded_driver(root)
    places = [path for one in FOLDERS for path in sorted(glob.glob(os.path.join(root, one, "*")))]
    right = [
        path for path in places if version and is_spec_for_driver(read_text_or_empty(path), version)
    ]
    units = [one for one in UNITS if _has_unit(one, root)]
    # files in /run disappear at a reboot, and without the units nothing creates them again
    lasting = [path for path in right if units or path.startswith(os.path.join(root, FOLDERS[0]))]
    return {"path": lasting[-1] if lasting else "", "driver": version, "units": units}


def _has_unit(name: str, root: str) -> bool:
    folders = ("usr/lib/systemd/system", "lib/systemd/system", "etc/systemd/system")
    return any(os.path.exists(os.path.join(root, one, name)) for one in folders)


def ensure_cdi_spec(run: SplitRunner, check: bool, root: str = "/") -> CdiResult:
    """Let the toolkit describe the GPUs if no valid specification exists.

    Does nothing without a driver.

    Raises:
        CdiError: the toolkit failed.
    """
    seen = inspect_cdi_spec(root)
    shown = make_diff(PLACE, "", "")
    if seen["path"] or not seen["driver"]:
        return {"changed": False, "devices": seen, "diff": shown}
    if check:
        return {"changed": True, "devices": seen, "diff": shown}
    if seen["units"]:
        _run_toolkit(run, ["systemctl", "restart", UNITS[-1]])
    else:
        where = os.path.join(root, PLACE.lstrip("/"))
        before, text = read_text_or_empty(where), _run_toolkit(run, [TOOL, "cdi", "generate"])
        write_file_atomically(where, text, 0o644)
        shown = diff_file(PLACE, before, text, root.rstrip("/"), 0o644)
    now = inspect_cdi_spec(root)
    if not now["path"]:
        raise CdiError(
            "[CT-107] The container toolkit has described no GPU of driver {} in {}. Check: `nvidia-smi -L`, "
            "`nvidia-ctk --debug cdi generate` and `journalctl -u {}`.".format(
                now["driver"], " or ".join("/" + one for one in FOLDERS), UNITS[-1]
            )
        )
    return {"changed": True, "devices": now, "diff": shown}


def _run_toolkit(run: SplitRunner, argv: list[str]) -> str:
    rc, out, err = run(argv)
    if rc:
        said = [line.strip().rstrip(".") for line in (err or out).splitlines() if line.strip()]
        raise CdiError(
            "[CT-107] `{}` fails: {}. Check: `nvidia-smi -L` (the driver has to work first).".format(
                " ".join(argv), said[-1] if said else f"exit code {rc}"
            )
        )
    return out
