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
ROW = 1024  # bytes in which a rank tells the others something
LENGTH = 2  # of them hold the length


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


class PickleRefusedError(RuntimeError):
    """Something asked for an object of a peer's, and that would run whatever the peer likes."""


def refuse_objects(dist: Any) -> None:
    """Shut the one door by which torch unpickles what peers send: every *_object collective goes through these two.

    The ranks themselves use none; this is for what torch might do on its own in a version to come.
    """

    def refused(*_: Any, **__: Any) -> Any:
        raise PickleRefusedError(
            "torch wanted to unpickle what a peer sent; the verification does not"
        )

    for name in ("_tensor_to_object", "_unpickler"):
        setattr(dist.distributed_c10d, name, refused)


def encoded(value: Any) -> bytes:
    """JSON in a row of bytes."""
    raw = json.dumps(value).encode()
    if len(raw) > ROW - LENGTH:
        raise ValueError(f"{len(raw)} bytes do not fit into a row of {ROW}")
    return (len(raw).to_bytes(LENGTH, "big") + raw).ljust(ROW, b"\0")


def decoded(row: bytes) -> Any:
    """What a peer says: JSON, whatever was sent; raises ValueError where it is none."""
    length = int.from_bytes(row[:LENGTH], "big")
    if length > len(row) - LENGTH:
        raise ValueError(f"a length of {length} bytes in a row of {len(row)}")
    try:
        return json.loads(row[LENGTH : LENGTH + length])
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc


def told_by_all(rank: Rank, what: str, texts: Sequence[str]) -> list[list[str]]:
    """A few short texts of every rank, at everybody's. Never an object: unpickling is running what a peer sent."""
    torch = rank.torch
    mine = torch.tensor(list(encoded(list(texts))), dtype=torch.uint8)
    found = [torch.zeros_like(mine) for _ in range(rank.world)]
    rank.dist.all_gather(found, mine)
    rows = []
    for number, row in enumerate(found):
        raw = bytes(row.tolist())
        try:
            value = decoded(raw)
        except ValueError:
            value = None
        fits = isinstance(value, list) and len(value) == len(texts)
        if not fits or not all(isinstance(one, str) for one in value):
            seen = repr(raw.rstrip(b"\0")[:80])
            raise WrongValueError(f"{what} of rank {number}", seen, "texts", "answer", [number])
        rows.append(value)
    return rows


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
