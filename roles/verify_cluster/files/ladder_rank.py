"""What the steps of a rank share: the rank itself, and the ways in which a check fails."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEGUN = time.monotonic()
RESERVE_SECONDS = 3.0


class WrongValueError(Exception):
    """Something came back that is not the exact result.

    Attributes:
        check: one word for what was checked, empty for a collective.
        ranks: the ranks at fault, empty for the rank that found it.
    """

    def __init__(
        self, what: str, seen: Any, expected: Any, check: str = "", ranks: Sequence[int] = ()
    ) -> None:
        super().__init__(f"{what}: got {seen}, expected {expected}")
        self.seen, self.expected = str(seen), str(expected)
        self.check, self.ranks = check, list(ranks)


class UnsupportedError(Exception):
    """This torch has no such collective on this backend."""


@dataclass(frozen=True)
class Place:
    """Where tensors lie and which process group moves them.

    Attributes:
        device: as torch names it: ``cpu``, ``cuda:1``.
        backend: ``gloo`` or ``nccl``.
        group: a process group of all ranks.
    """

    device: str
    backend: str
    group: Any


class Rank:
    """What the steps share."""

    def __init__(self, settings: dict[str, Any], events: Path) -> None:
        self.settings = settings
        self.events = events
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.torch: Any = None
        self.dist: Any = None
        self.store: Any = None
        self.rendezvous: Any = None
        self.groups: list[tuple[list[int], Any]] = []
        self.gpu: Place | None = None

    def left(self) -> float:
        """Seconds until the supervisor loses patience."""
        spent = time.monotonic() - BEGUN
        return max(1.0, float(self.settings["deadline"]) - spent - RESERVE_SECONDS)

    def say(self, **event: Any) -> None:
        """Write one line."""
        with self.events.open("a") as stream:
            stream.write(json.dumps(event) + "\n")
