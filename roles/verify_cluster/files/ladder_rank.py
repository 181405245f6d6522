"""The data that the steps of a rank share, and the errors of a check."""

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
ROW = 1024  # bytes of a message from a rank to the others
LENGTH = 2  # of them hold the length


class WrongValueError(Exception):
    """A result is not exactly the expected value.

    Attributes:
        check: one word for the part that was checked, "" for a collective.
        ranks: the ranks at fault. Empty: the rank that found it.
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
    """The device of tensors, and the process group that moves them.

    Attributes:
        device: as torch names it: ``cpu``, ``cuda:1``.
        backend: ``gloo`` or ``nccl``.
        group: a process group of all ranks.
    """

    device: str
    backend: str
    group: Any


class PickleRefusedError(RuntimeError):
    """A collective asked for a Python object of a peer. To unpickle it would run the peer's code."""


def refuse_objects(dist: Any) -> None:
    """Replace the two functions with which torch unpickles data of peers in every *_object collective.

    The ranks use none of them. A later version of torch might.
    """

    def refused(*_: Any, **__: Any) -> Any:
        raise PickleRefusedError(
            "torch tried to unpickle data of a peer, which the verification does not allow"
        )

    for name in ("_tensor_to_object", "_unpickler"):
        setattr(dist.distributed_c10d, name, refused)


def encode_row(value: Any) -> bytes:
    """Return a value as JSON in a row of bytes."""
    raw = json.dumps(value).encode()
    if len(raw) > ROW - LENGTH:
        raise ValueError(f"{len(raw)} bytes do not fit into a row of {ROW}")
    return (len(raw).to_bytes(LENGTH, "big") + raw).ljust(ROW, b"\0")


def decode_row(row: bytes) -> Any:
    """Parse the row of a peer.

    Raises:
        ValueError: it is not JSON.
    """
    length = int.from_bytes(row[:LENGTH], "big")
    if length > len(row) - LENGTH:
        raise ValueError(f"a length of {length} bytes in a row of {len(row)}")
    try:
        return json.loads(row[LENGTH : LENGTH + length])
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc


def gather_texts(rank: Rank, what: str, texts: Sequence[str]) -> list[list[str]]:
    """Return a few short texts of each rank, on all ranks. They are never pickled objects, which could run code."""
    torch = rank.torch
    mine = torch.tensor(list(encode_row(list(texts))), dtype=torch.uint8)
    found = [torch.zeros_like(mine) for _ in range(rank.world)]
    rank.dist.all_gather(found, mine)
    rows = []
    for number, row in enumerate(found):
        raw = bytes(row.tolist())
        try:
            value = decode_row(raw)
        except ValueError:
            value = None
        fits = isinstance(value, list) and len(value) == len(texts)
        if not fits or not all(isinstance(one, str) for one in value):
            seen = repr(raw.rstrip(b"\0")[:80])
            raise WrongValueError(f"{what} of rank {number}", seen, "texts", "answer", [number])
        rows.append(value)
    return rows


class Rank:
    """The state that the steps of a rank share."""

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
        """Return the seconds until the supervisor ends this rank."""
        spent = time.monotonic() - BEGUN
        return max(1.0, float(self.settings["deadline"]) - spent - RESERVE_SECONDS)

    def say(self, **event: Any) -> None:
        """Write one event."""
        with self.events.open("a") as stream:
            stream.write(json.dumps(event) + "\n")
