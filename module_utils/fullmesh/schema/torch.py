# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""torch's environment: a node's state, the controller's downloads for it, and the exchange between nodes."""

from __future__ import annotations

from typing import TypedDict


class TorchVersions(TypedDict, total=False):
    """The versions of an environment's torch: all of them, or none without an environment.

    ``cuda``, ``rocm`` and ``nccl`` are empty if torch has none.
    """

    torch: str
    python: str
    cuda: str
    rocm: str
    gloo: bool
    nccl: str
    nccl_library: str


class PythonSeen(TypedDict):
    """The interpreter that makes the environment: 3.11, x86_64, glibc [2, 36]. *fault*: why it cannot, a sentence."""

    python: str
    machine: str
    glibc: list[int]
    fault: str


class VenvSeen(PythonSeen):
    """The observation of torch_venv.

    Attributes:
        digest: of the environment's inputs.
        folder: its path.
        needed: it has to be built.
        linked: jobs already use it.
        current: the link's target, or "".
        versions: empty if there is no environment.
        store: the folder with the environments.
        free_bytes: in the store.
        have: SHA-256 of wheels that an earlier run kept.
        bundles: complete ones that an interrupted run left, with sizes.
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
    """Size of a bundle in bytes, and SHA-256 of each of its pieces. Empty without a bundle."""

    size: int
    piece: int
    pieces: list[str]


class WheelhouseResult(TypedDict):
    """The answer of wheelhouse.

    Attributes:
        key: of (lock, Python, machine).
        wheels: name -> SHA-256.
        bundle: path of a tar with the wheels that the nodes lack, or "".
        manifest: of its pieces.
        bundle_bytes: of the tar.
        installed_bytes: of all wheels unpacked.
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
    """wheel_share's answer, state started: whether all pieces are here, and the port for peers (0: none, and *why*)."""

    changed: bool
    complete: bool
    port: int
    why: str


# ``from`` is not a name that a class could have.
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
"""State fetched: received bytes and damaged pieces by node, and the reason for each node that gave nothing."""
