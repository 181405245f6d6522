# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A change that can cut us off is armed to undo itself first. Python 3.6, stdlib only.

A timer on the node restores the saved files and runs the given commands, unless somebody who came in on a new
connection disarms it. The files lie in /var/lib/fullmesh/rollback/<name>, which only root can read.
"""

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Runner = Callable[[list[str]], tuple[int, str]]

STORE = "/var/lib/fullmesh/rollback"


class RollbackError(Exception):
    """A sentence for the user."""


def unit(name):  # type: (str) -> str
    """Name the transient unit."""
    return "fullmesh-rollback-" + name.replace("_", "-")


def quoted(path):  # type: (str) -> str
    """Quote a path for sh."""
    return "'" + path.replace("'", "'\\''") + "'"


def script(directory, before, commands):  # type: (str, dict[str, bool], list[str]) -> str
    """Print the way back: files that were there are copied over, others go; then the commands."""
    lines = [
        "#!/bin/sh",
        "# Armed by Fullmesh: runs when nobody came back to confirm the change.",
        "set -u",
    ]
    for number, path in enumerate(sorted(before)):
        if before[path]:
            lines.append("cp -p {}/{} {}".format(quoted(directory), number, quoted(path)))
        else:
            lines.append("rm -f {}".format(quoted(path)))
    return "\n".join([*lines, *commands, ": > {}/fired".format(quoted(directory))]) + "\n"


def arm(run, name, seconds, paths, commands):
    # type: (Runner, str, int, list[str], list[str]) -> None
    """Save *paths* as they are and start the timer."""
    directory = STORE + "/" + name
    run(["systemctl", "stop", unit(name) + ".timer"])
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory, 0o700)
    before = {path: os.path.isfile(path) for path in paths}
    for number, path in enumerate(sorted(before)):
        if before[path]:
            shutil.copy2(path, "{}/{}".format(directory, number))
    with open(directory + "/back.sh", "w") as stream:
        stream.write(script(directory, before, commands))
    command = ["systemd-run", "--unit=" + unit(name), "--on-active={}".format(seconds)]
    command += ["--timer-property=AccuracySec=1s", "/bin/sh", directory + "/back.sh"]
    rc, out = run(command)
    if rc != 0:
        raise RollbackError("systemd-run says {!r} (rc {})".format(out.strip(), rc))


def disarm(run, name):  # type: (Runner, str) -> str
    """Stop the timer. Return V(disarmed), V(fired) when it was too late, V(idle) when nothing was armed."""
    directory = STORE + "/" + name
    run(["systemctl", "stop", unit(name) + ".timer"])
    if not os.path.isdir(directory):
        return "idle"
    fired = os.path.exists(directory + "/fired")
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(STORE)
    return "fired" if fired else "disarmed"
