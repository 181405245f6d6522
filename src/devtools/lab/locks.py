"""Locks between lab commands that run at the same time."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devtools.lab.console import EVERY, say
from devtools.lab.errors import LabError

POLL_SECONDS = 0.2


@contextmanager
def held(path: Path, what: str, deadline: float) -> Iterator[None]:
    """Hold an exclusive lock on *path*; LB-112 if others keep it longer than *deadline* seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        begun = said = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if now - begun > deadline:
                    raise LabError(
                        "LB-112",
                        f"another lab command has held {what} for {deadline:.0f} s ({path})",
                        "Wait for it to end, or end it, then try again.",
                    ) from None
                if now - said > EVERY:
                    said = now
                    say(f"waiting for another lab command: {what}, {now - begun:.0f} s")
                time.sleep(POLL_SECONDS)
        yield
