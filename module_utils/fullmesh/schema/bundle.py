# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The description of a bundle: the machines that it suits."""

from __future__ import annotations

from typing import TypedDict


class WheelSet(TypedDict):
    """Wheels for a Python (``3.11``) on a machine (``x86_64``), from a lock that is named after its content."""

    python: str
    machine: str
    lock: str


class BundleContents(TypedDict):
    """Kinds of nodes with packages in the bundle (distribution, release, machine), and the sets of wheels."""

    kinds: list[str]
    wheels: list[WheelSet]


class BundleSource(TypedDict, total=False):
    """An entry of an archive: the ``project``, a ``file`` with its ``place``, or a ``path`` that keeps its name."""

    place: str
    project: str
    file: str
    path: str
