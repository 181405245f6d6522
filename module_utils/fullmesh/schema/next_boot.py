# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A node's configuration for its next boot, compared with its present state.

module_utils/fullmesh/survey/next_boot.py collects it.
"""

from __future__ import annotations

from typing import TypedDict


class KeptSetting(TypedDict):
    """The value that a file sets for a kernel setting at boot. ``source`` is the file, or empty."""

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
    """The cluster address, its interface, and its configuration for the next boot.

    ``leased``: it has a lease, or a file about the interface requests one. ``kept``: a file for the next boot has the
    address.
    """

    card: str
    leased: bool
    kept: bool


class KeptRoute(TypedDict):
    """A static route of the main table to peers. ``kept``: a file for the next boot has its network."""

    to: str
    via: str
    card: str
    protocol: str
    kept: bool


class KeptTables(TypedDict):
    """The rules of nftables.service: the file, its tables (``inet filter``), whether a rule drops or rejects."""

    source: str
    tables: list[str]
    drops: bool


class CurrentMount(TypedDict):
    """A mount of a kind that jobs need. ``size``: of a tmpfs with a set size, in bytes, else 0."""

    point: str
    kind: str
    what: str
    size: int


class KeptMount(CurrentMount):
    """A line of fstab or a mount unit.

    ``waits``: the boot waits for it (neither noauto nor nofail). ``mounted``: the mount point is in use now.
    """

    source: str
    waits: bool
    mounted: bool


class KeptKernel(TypedDict):
    """The running and the next kernel with their arguments.

    ``next`` is empty if unknown.

    ``driver``: the running kernel has NVIDIA's module. ``driver_next``: the next one has it as well.
    """

    running: str
    arguments: list[str]
    next: str
    next_arguments: list[str]
    source: str
    driver: bool
    driver_next: bool


class NextBoot(TypedDict, total=False):
    """The parts that could be read.

    In a container the kernel, its modules and SELinux are not the node's.

    ``settings``: by dotted name, those that are writable here. ``tuned``: names that tuned's profile sets later.
    ``limits``: systemd's present defaults. ``limits_kept``: those in its files. ``selinux_kept``: SELINUX= of its file.
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
