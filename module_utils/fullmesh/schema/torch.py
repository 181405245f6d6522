# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""torch's environment: what a node has, what the controller downloads for it, what nodes hand to each other."""

from __future__ import annotations

from typing import TypedDict


class TorchVersions(TypedDict, total=False):
    """What an environment's torch says of itself, all of it or, without an environment, nothing.

    ``cuda``, ``rocm`` and ``nccl`` are empty where torch has none.
    """

    torch: str
    python: str
    cuda: str
    rocm: str
    gloo: bool
    nccl: str
    nccl_library: str


class PythonSeen(TypedDict):
    """The interpreter that makes the environment: 3.11, x86_64, glibc [2, 36]; *fault*: why it cannot, a sentence."""

    python: str
    machine: str
    glibc: list[int]
    fault: str


class VenvSeen(PythonSeen):
    """torch_venv's observation.

    Attributes:
        digest: of what the environment would be made of; folder: its place.
        needed: it has to be built; linked: jobs already find it; current: where the link leads, "" for nowhere.
        versions: empty where there is none.
        store: where environments are; free_bytes: there.
        have: SHA-256 of wheels that an earlier run kept; bundles: whole ones that an interrupted run left, with sizes.
    """

    digest: str
    folder: str
    needed: bool
    linked: bool
    current: str
    versions: TorchVersions
    store: str
    free_bytes: int
    have: list[str]
    bundles: dict[str, int]


class BundlePieces(TypedDict, total=False):
    """What proves every piece of a bundle by itself: sizes in bytes, SHA-256 of each; nothing without a bundle."""

    size: int
    piece: int
    pieces: list[str]


class WheelhouseResult(TypedDict):
    """wheelhouse's answer.

    Attributes:
        key: of (lock, Python, machine); wheels: name -> SHA-256.
        bundle: path of a tar of what the nodes lack, "" where they lack nothing; manifest: of its pieces.
        bundle_bytes, installed_bytes: of the tar, of all wheels unpacked.
    """

    changed: bool
    key: str
    wheels: dict[str, str]
    bundle: str
    bundle_bytes: int
    manifest: BundlePieces
    installed_bytes: int


class WheelSource(TypedDict):
    """A node that listens."""

    name: str
    address: str
    port: int


class WheelShareResult(TypedDict):
    """wheel_share's answer, state started: whether all is here, the port that peers ask (0: none, and *why*)."""

    changed: bool
    complete: bool
    port: int
    why: str


# ``from`` is no name that a class could have.
Fetched = TypedDict(
    "Fetched",
    {
        "changed": bool,
        "complete": bool,
        "bytes": int,
        "damaged": int,
        "from": list[str],
        "reasons": dict[str, str],
    },
)
"""State fetched: bytes and damaged pieces that came, from which nodes; why each of the others gave nothing."""
