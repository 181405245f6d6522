# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a node keeps for its next boot, beside what runs now (module_utils/fullmesh/survey/next_boot.py)."""

from __future__ import annotations

from typing import TypedDict


class KeptSetting(TypedDict):
    """The value that a file gives a kernel setting at boot, and the file; ``source`` is empty where none does."""

    value: str
    source: str


class KeptUnit(TypedDict):
    """A unit of systemd: ``load``, ``active`` and ``file`` are its LoadState, ActiveState and UnitFileState.

    ``stale``: its file on the disk is not the one that is loaded (NeedDaemonReload).
    """

    name: str
    load: str
    active: str
    file: str
    stale: bool


class KeptAddress(TypedDict):
    """The cluster address: its card, whether a lease or the card's own files may bring it back, and whether one does.

    ``leased``: it has a lease, or a file that is about the card asks for one. ``kept``: a file that outlives a boot
    has the address.
    """

    card: str
    leased: bool
    kept: bool


class KeptRoute(TypedDict):
    """A route of the main table to peers that nobody learnt; ``kept``: a file that outlives a boot has its network."""

    to: str
    via: str
    card: str
    protocol: str
    kept: bool


class KeptTables(TypedDict):
    """What nftables.service loads: the file, its tables (``inet filter``), whether a rule of it drops or rejects."""

    source: str
    tables: list[str]
    drops: bool


class CurrentMount(TypedDict):
    """A mount of a kind that jobs need; ``size``: of a tmpfs that was given one, in bytes, else 0."""

    point: str
    kind: str
    what: str
    size: int


class KeptMount(CurrentMount):
    """A line of fstab or a mount unit.

    ``waits``: the boot waits for it (neither noauto nor nofail); ``mounted``: something is mounted there now.
    """

    source: str
    waits: bool
    mounted: bool


class KeptKernel(TypedDict):
    """The kernel that runs and the one that boots next, with their arguments; ``next`` is empty where not known.

    ``driver``: the running kernel has NVIDIA's module, ``driver_next``: the next one has one as well.
    """

    running: str
    arguments: list[str]
    next: str
    next_arguments: list[str]
    source: str
    driver: bool
    driver_next: bool


class NextBoot(TypedDict, total=False):
    """What could be looked at; in a container the kernel, its modules and SELinux are not the node's.

    ``settings``: by dotted name, those that can be written here. ``tuned``: names that tuned's profile sets later.
    ``limits``: systemd's own defaults now, ``limits_kept``: what its files say. ``selinux_kept``: SELINUX= of its file.
    """

    container: bool
    settings: dict[str, KeptSetting]
    tuned: list[str]
    units: list[KeptUnit]
    address: KeptAddress
    routes: list[KeptRoute]
    tables: KeptTables
    ufw: bool
    mounts: list[CurrentMount]
    mounts_kept: list[KeptMount]
    kernel: KeptKernel
    selinux_kept: str
    limits: dict[str, str]
    limits_kept: dict[str, KeptSetting]
