# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Add NVIDIA's runtime to docker's settings: one entry of ``daemon.json``.

All other entries belong to the user.

The entry is the one of ``nvidia-ctk runtime configure --runtime=docker``. That program sorts and indents the whole
file, and cannot revert its change. Runs on nodes: standard library only.
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
    """The result. ``waiting``: the number of running containers that prevented a restart of docker."""

    changed: bool
    docker: bool
    waiting: int
    diff: Diff


def parse_docker_settings(text: str) -> dict[str, Any]:
    """Parse the settings.

    An empty file has none.

    Raises:
        DockerError: docker could not read them either.
    """
    try:
        found = parse_foreign_json(text) if text.strip() else {}
    except ValueError as error:
        raise make_settings_error(str(error)) from error
    if not isinstance(found, dict) or not isinstance(found.get("runtimes", {}), dict):
        raise make_settings_error("it is not a JSON object of settings")
    return found


def make_settings_error(why: str) -> DockerError:
    """Return the error for unreadable settings."""
    return DockerError(
        f"[CT-108] {PLACE} cannot be read: {why}. Fix: correct it, or "
        "set container_toolkit_docker to false. Check: `dockerd --validate`."
    )


def add_nvidia_runtime(text: str) -> str:
    """Add Fullmesh's entry. An existing entry of that name stays."""
    config = parse_docker_settings(text)
    if NAME in config.get("runtimes", {}):
        return text
    config.setdefault("runtimes", {})[NAME] = OURS
    return format_docker_settings(config)


def format_docker_settings(config: dict[str, Any]) -> str:
    """Format the settings in their original order."""
    return json.dumps(config, indent=4) + "\n"


def remove_nvidia_runtime(text: str, before: str | None) -> str | None:
    """Return the file without Fullmesh's entry, or None if the file has to be removed.

    If nothing else changed, the result is *before*, byte for byte.

    Args:
        text: the present text.
        before: the text before the entry was added, None if there was no file.
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
    """Add or remove the entry.

    Raises:
        DockerError: the file is invalid, or docker does not start with it and the change was reverted.
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
    """Return whether the role has saved the file, and its content."""
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
    """Restart docker if it runs and no container would be stopped. Return the number of such containers."""
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
        f"[CT-108] docker does not start with NVIDIA's runtime in {PLACE}, so the file was restored: "
        f"{(err or out).strip().rstrip('.')}. "
        "Check: `journalctl -u docker`. Fix: set container_toolkit_docker to false."
    )
