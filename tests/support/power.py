"""A lab node's power switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from devtools.lab.podman import Podman


def reboot_node(podman: Podman, container: str) -> None:
    """Power off and on; where podman's own restart of the node (always) came in between, once more on."""
    done = podman.run("restart", "--time", "1", container, timeout=120)
    words = done.stderr.strip()
    for _ in range(3):
        state = podman.run("inspect", "--format", "{{.State.Running}}", container)
        if state.stdout.strip() == "true":
            return
        words = podman.run("start", container, timeout=60).stderr.strip() or words
    pytest.fail(f"{container} does not start again: {words}")


def reboot_nodes_with_cables(
    podman: Podman, containers: Sequence[str], connect: Callable[[], None], seconds: int
) -> None:
    """Power nodes off and on. Their cables, which end with the nodes' namespaces, are there before systemd starts.

    Args:
        podman: of the lab.
        containers: of the nodes.
        connect: adds the cables.
        seconds: to shut down, 0 cuts the power.
    """
    for container in containers:
        podman.must("stop", "--time", str(seconds), container)
    for container in containers:
        podman.must("init", container)
    connect()
    for container in containers:
        podman.must("start", container)
