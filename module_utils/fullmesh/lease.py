# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Tie everything that a run starts on a node to the controller: a lock that ends when the controller is gone.

During a run, the controller keeps one session per node open and sends a byte on it every 0.5 s
(src/fullmesh/ask/lease.py). The program at the end of that session (ask/boot.py) holds the lock, and ends if the
session ends or the controller is silent. The kernel then releases the lock, for any kind of end. Everything else that
the run started on the node polls the lock and ends within 0.5 s.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import signal
import time

LEASE = "lease"
POLL_SECONDS = 0.5
HELD: list[int] = []  # the descriptor of the lock. detach() closes it in every helper.


def take_lease(folder: str) -> None:
    """Hold the lease of the run in *folder* until this process ends.

    Raises:
        OSError: another process holds it.
    """
    handle = os.open(os.path.join(folder, LEASE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    HELD.append(handle)


def has_lease(folder: str) -> bool:
    """Return whether this run was started with a lease. An Ansible module cannot hold one."""
    return os.path.exists(os.path.join(folder, LEASE))


def is_unlocked(path: str) -> bool:
    """Return whether no process holds a file's lock. A missing file counts as unlocked."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def is_lease_lost(folder: str) -> bool:
    """Return whether the process that listened to the controller is gone, or the run is over."""
    return is_unlocked(os.path.join(folder, LEASE))


def keep_lease(folder: str) -> None:
    """Wait until the run is over. If the controller disappears first, boot.py ends this process."""
    while os.path.isdir(folder):
        time.sleep(POLL_SECONDS)


def end_with_lease(folder: str) -> None:
    """End this process as soon as the lease is lost."""

    def poll() -> None:
        while not is_lease_lost(folder):
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    _thread.start_new_thread(poll, ())
