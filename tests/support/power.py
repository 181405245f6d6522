"""A lab node's power switch."""

from __future__ import annotations

import pytest

from devtools.lab.podman import Podman


def reboot(podman: Podman, container: str) -> None:
    """Power off and on; where podman's own restart of the node (always) came in between, once more on."""
    done = podman.run("restart", "--time", "1", container, timeout=120)
    words = done.stderr.strip()
    for _ in range(3):
        state = podman.run("inspect", "--format", "{{.State.Running}}", container)
        if state.stdout.strip() == "true":
            return
        words = podman.run("start", container, timeout=60).stderr.strip() or words
    pytest.fail(f"{container} does not start again: {words}")
