"""Leave a helper running on the node after the module has returned, for a limited time.

A module call is one ssh command. The controller waits as long as a process keeps its pipes open, and may never come
back. So the helper closes every inherited descriptor, and its work function has to end by itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Callable

# tmpfs, so it is always gone after a reboot. A diagnosis without root cannot use it.
BASE = (
    "/run/fullmesh-verify" if os.geteuid() == 0 else f"/tmp/fullmesh-verify-{os.getuid()}"  # noqa: S108 (its owner is checked, see below)
)
PRIVATE = 0o700
PASSAGE = 0o711  # the ranks can enter their run's folder, but cannot list runs


def run_directory(run: str, base: str = BASE) -> str:
    """Return the directory of one run. The name comes from the controller, so it is checked."""
    if not run or not all(c.isalnum() or c in "-_" for c in run):
        raise ValueError(f"run id {run!r} may hold letters, digits, - and _ only")
    return os.path.join(base, run)


def make_run_directory(run: str, base: str = BASE) -> str:
    """Create the run's directory for this account alone."""
    path = run_directory(run, base)
    for folder, mode in ((base, PASSAGE), (path, PRIVATE)):
        try:
            os.mkdir(folder, PRIVATE)
        except FileExistsError:
            held = os.lstat(folder)
            if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid():
                raise ValueError(
                    f"{folder} exists already and belongs to another account"
                ) from None
        os.chmod(folder, mode)
    return path


def remove_run_directory(run: str, base: str = BASE) -> None:
    """Remove the run's directory, and the base directory with the last run."""
    shutil.rmtree(run_directory(run, base), ignore_errors=True)
    with contextlib.suppress(OSError):  # another run is active or was faster
        os.rmdir(base)


def clear_run_directory(run: str, base: str, keep: str) -> None:
    """Remove everything in the run's directory except one file, so that another job of the same run can follow."""
    for entry in os.scandir(run_directory(run, base)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.name != keep:
            os.unlink(entry.path)


def close_descriptors_except(keep: Iterable[int]) -> None:
    """Close every descriptor above stderr except *keep*."""
    kept = set(keep)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in kept:  # noqa: PLR2004 (0, 1, 2 are the standard streams)
            with contextlib.suppress(OSError):  # the descriptor of this very listing
                os.close(number)


def drop_descriptors_except(keep: Iterable[int]) -> None:
    """Point the standard streams at /dev/null, and close every other descriptor except *keep*."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    close_descriptors_except(keep)


def run_detached(work: Callable[[], None], keep: Iterable[int] = ()) -> None:
    """Run *work* in a grandchild without terminal, pipes or parent. Returns at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        drop_descriptors_except(keep)
        for number in (signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        work()
    finally:
        # Never return into Ansible's wrapper: it would remove files that its first copy still needs.
        os._exit(0)
