# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""NVIDIA's runtime in docker's settings: one entry of ``daemon.json``, where all else is somebody's own.

What ``nvidia-ctk runtime configure --runtime=docker`` enters; that program sorts and indents the whole file anew, and
has no way back. Runs on nodes: standard library only.
"""

from __future__ import annotations

import copy
import json
import os
from typing import TYPE_CHECKING, Any, TypedDict

from .answer import diff_file
from .files import read_text_or_empty, write_file_atomically
from .foreign_text import parse_foreign_json
from .state.record import UndoPoint

if TYPE_CHECKING:
    from .answer import Diff
    from .commands import SplitRunner

ROLE = "container_toolkit"
PLACE = "/etc/docker/daemon.json"
DAEMONS = ("usr/bin/dockerd", "usr/sbin/dockerd", "usr/local/bin/dockerd")
NAME = "nvidia"
OURS = {"args": [], "path": "nvidia-container-runtime"}


class DockerError(Exception):
    """A coded sentence for the user."""


class DockerRuntimeResult(TypedDict):
    """What became of the entry; ``waiting``: containers that run, so that docker was not started anew."""

    changed: bool
    docker: bool
    waiting: int
    diff: Diff


def parse_docker_settings(text: str) -> dict[str, Any]:
    """The settings; an empty file has none.

    Raises:
        DockerError: docker could not read them either.
    """
    try:
        found = parse_foreign_json(text) if text.strip() else {}
    except ValueError as error:
        raise make_settings_error(str(error)) from error
    if not isinstance(found, dict) or not isinstance(found.get("runtimes", {}), dict):
        raise make_settings_error("it holds something else than settings")
    return found


def make_settings_error(why: str) -> DockerError:
    """Word it."""
    return DockerError(
        f"[CT-108] {PLACE} cannot be read: {why}. Correct it (`dockerd --validate` says what docker makes of it), or "
        "set container_toolkit_docker to false."
    )


def add_nvidia_runtime(text: str) -> str:
    """The file with our entry; one of that name that somebody has made stays."""
    config = parse_docker_settings(text)
    if NAME in config.get("runtimes", {}):
        return text
    config.setdefault("runtimes", {})[NAME] = OURS
    return format_docker_settings(config)


def format_docker_settings(config: dict[str, Any]) -> str:
    """The file's text, in the order that it had."""
    return json.dumps(config, indent=4) + "\n"


def remove_nvidia_runtime(text: str, before: str | None) -> str | None:
    """The file without our entry, byte for byte as *before* where nobody changed anything else; None where it goes.

    Args:
        text: as it is now.
        before: as it was before the entry; None where there was no file.
    """
    config = parse_docker_settings(text)
    was = parse_docker_settings(before or "")
    if config.get("runtimes", {}).get(NAME) != OURS or NAME in was.get("runtimes", {}):
        return text
    left = copy.deepcopy(config)
    del left["runtimes"][NAME]
    if not left["runtimes"] and "runtimes" not in was:
        del left["runtimes"]
    if left == was:
        return before
    return format_docker_settings(left)


def configure_docker_runtime(
    run: SplitRunner, present: bool, check: bool, root: str = "/"
) -> DockerRuntimeResult:
    """Make the entry, or take it away.

    Raises:
        DockerError: the file is broken, or docker does not start with it; then it is as it was.
    """
    where = os.path.join(root, PLACE.lstrip("/"))
    docker = any(os.path.exists(os.path.join(root, one)) for one in DAEMONS)
    text = read_text_or_empty(where)
    was = text if os.path.exists(where) else None
    wanted: str | None = text
    if present and docker:
        wanted = add_nvidia_runtime(text)
    elif not present and was is not None:
        saved, before = _load_saved_settings(root)
        wanted = remove_nvidia_runtime(text, before) if saved else text
    changed = wanted != text
    waiting = 0
    if changed and not check:
        _write_docker_settings(where, wanted)
        waiting = _restart_docker_if_idle(run, where, was) if docker else 0
    return {
        "changed": changed,
        "docker": docker,
        "waiting": waiting,
        "diff": diff_file(PLACE, text, wanted or "", root),
    }


def _load_saved_settings(root: str) -> tuple[bool, str | None]:
    """Whether the role remembers the file, and what was in it."""
    point = UndoPoint(root, ROLE)
    then = point.load()["files"].get(PLACE) if point.exists() else None
    if then is None:
        return False, None
    return True, None if then["kind"] == "absent" else point.blob(then).decode("utf-8", "replace")


def _write_docker_settings(where: str, text: str | None) -> None:
    if text is None:
        os.unlink(where)
    else:
        write_file_atomically(where, text)


def _restart_docker_if_idle(run: SplitRunner, where: str, before: str | None) -> int:
    """Start docker anew where it runs and no container would end by it; how many would."""
    if run(["systemctl", "is-active", "--quiet", "docker.service"])[0]:
        return 0
    rc, out, _ = run(["docker", "ps", "--quiet"])
    if rc or out.split():
        return len(out.split()) or 1
    rc, out, err = run(["systemctl", "restart", "docker.service"])
    if not rc:
        return 0
    _write_docker_settings(where, before)
    run(["systemctl", "restart", "docker.service"])
    raise DockerError(
        f"[CT-108] docker does not start with NVIDIA's runtime in {PLACE}, which is as it was: "
        f"{(err or out).strip().rstrip('.')}. Look at `journalctl -u docker`, or set container_toolkit_docker to false."
    )
