# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the program that owns an interface, and the backend that writes its files. Standard library only.

`NetworkBackend` in backends/common.py defines the interface of a backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..tools import nmcli
from ..transaction.engine import KernelView
from .backends import common, ifupdown, kernel_state, netplan, networkd, networkmanager
from .types import OwnerState

if TYPE_CHECKING:
    from ..commands import SplitRunner
    from ..state.record import NetworkBefore
    from .backends.common import Lister, NetworkBackend, Reader
    from .types import Changes, Files, LinkSettings


MODULES: tuple[NetworkBackend, ...] = (networkmanager, netplan, networkd, ifupdown)
BACKENDS = {one.NAME: one for one in MODULES}
ForeignError = common.ForeignError
list_affected_interfaces = common.list_affected_interfaces
with_remade = kernel_state.with_remade
find_changed_devices = kernel_state.find_changed_devices


def get_backend(name: str) -> NetworkBackend:
    """Return the backend called *name*."""
    return BACKENDS[name]


def merge_undo_states(first: NetworkBefore, later: NetworkBefore) -> NetworkBefore:
    """Merge the saved states of several changes: each interface as it was before its first change.

    Args:
        first: the saved state so far.
        later: the state before the next change, which may have other interfaces.
    """
    known = {name for names in first["names"].values() for name in names}
    names, owners = dict(first["names"]), dict(first["owners"])
    for owner, touching in later["names"].items():
        fresh = [name for name in touching if name not in known]
        if fresh:
            names[owner] = names.get(owner, []) + fresh
            owners[owner] = widen_snapshot(owners.get(owner), later["owners"][owner], fresh)
    seen, now = first["runtime"], later["runtime"]
    unseen = [name for name in now["links"] if name not in seen["links"]]
    return {"names": names, "owners": owners, "runtime": widen_snapshot(seen, now, unseen)}


def drop_watched_interfaces(kept: NetworkBefore) -> NetworkBefore:
    """Return the state to save for an undo: only interfaces that change, not those that are only watched."""
    names = [name for each in kept["names"].values() for name in each]
    return {**kept, "runtime": narrow_snapshot(kept["runtime"], names)}


# A snapshot of an owner or of the kernel: dicts by interface, or lists of entries with their interface.
Snapshot = TypeVar("Snapshot", OwnerState, KernelView)


def narrow_snapshot(state: Snapshot, names: list[str]) -> Snapshot:
    """Return a snapshot with only the interfaces *names*."""
    result: dict[str, Any] = {**state}
    for key, value in state.items():
        if isinstance(value, dict):
            result[key] = {name: value[name] for name in value if name in names}
        elif isinstance(value, list):
            result[key] = [one for one in value if get_entry_interface(one) in names]
    return cast("Snapshot", result)


def widen_snapshot(state: Snapshot | None, more: Snapshot, names: list[str]) -> Snapshot:
    """Return a snapshot (or None so far) extended by another one's data of the interfaces *names*."""
    result: dict[str, Any] = {**state} if state else {}
    for key, value in more.items():
        if isinstance(value, dict):
            there = {name: value[name] for name in names if name in value}
            result[key] = {**there, **result.get(key, {})}
        elif isinstance(value, list):
            result[key] = result.get(key, []) + [
                one for one in value if get_entry_interface(one) in names
            ]
        else:
            result.setdefault(key, value)
    return cast("Snapshot", result)


def get_entry_interface(entry: Any) -> str:
    """Return the interface of an entry: a route as dict or as [family, interface, text], or a name."""
    if isinstance(entry, dict):
        return str(entry.get("dev", ""))
    return str(entry if isinstance(entry, str) else entry[1])


def read_own_files(read: Reader, listed: Lister) -> Files:
    """Return Fullmesh's present files of every backend, recognized by their head."""
    patterns = [pattern for one in BACKENDS.values() for pattern in one.OURS]
    paths = {path for pattern in patterns for path in listed(pattern)}
    texts = {path: read(path) for path in sorted(paths)}
    return {path: text for path, text in texts.items() if text.startswith(common.HEAD)}


def build_scratch_files(name: str, read: Reader, listed: Lister, changes: Changes) -> Files:
    """Return all files that the backend's tool would read after *changes* (own and foreign)."""
    paths = {path for pattern in BACKENDS[name].READS for path in listed(pattern)}
    result = {path: read(path) for path in sorted(paths)}
    result.update({path: text for path, text in changes.items() if text is not None})
    return {path: text for path, text in result.items() if changes.get(path, "") is not None}


# --- owner of an interface --------------------------------------------------------------------


def read_device_state(run: SplitRunner, interface: str) -> str:
    """Return NetworkManager's state of a device, or "" if it does not run."""
    rc, out, _ = run(nmcli.build_value_command("GENERAL.STATE", "device", interface))
    # "100 (connected)", "100 (connected (externally))", "10 (unmanaged)": the number is the stable part
    return nmcli.parse_value(out) if rc == 0 else ""


def find_networkd_file(read: Reader, interface: str) -> str:
    """Return the .network file that systemd-networkd uses for an interface, or ""."""
    return networkd.find_network_file(read, interface)


def find_owner(run: SplitRunner, read: Reader, listed: Lister, interface: str) -> str:
    """Return the backend that owns *interface* now, or "".

    The distribution's name does not matter.

    The order is: NetworkManager, if it manages the device. ifupdown, if a stanza has it and ifup exists.
    systemd-networkd, if it has a file for it (netplan's or another). Finally the node's running network service.
    """
    state = read_device_state(run, interface)
    if state and not state.startswith("10 "):
        return networkmanager.NAME
    if (
        interface in ifupdown.map_stanza_files(read, listed)
        and run(["ifquery", "--version"])[0] == 0
    ):
        return ifupdown.NAME
    native = find_networkd_file(read, interface)
    if native:
        # netplan(8): /run/systemd/network/10-netplan-* (systemd-network-generator and dracut also write there)
        return netplan.NAME if "/10-netplan-" in native else networkd.NAME
    return find_running_backend(run, read)


def find_running_backend(run: SplitRunner, read: Reader) -> str:
    """Return the running backend for an unconfigured interface. NetworkManager was already excluded."""
    if run(["netplan", "info"])[0] == 0:
        return netplan.NAME
    if run(["systemctl", "is-active", "--quiet", "systemd-networkd.service"])[0] == 0:
        return networkd.NAME
    if read(ifupdown.MAIN) and run(["ifquery", "--version"])[0] == 0:
        return ifupdown.NAME
    return ""


def find_link_owners(
    run: SplitRunner, read: Reader, listed: Lister, links: list[LinkSettings]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the backend of each link, or the reason without one.

    A bond uses its members', a VLAN its parent's.

    Returns:
        ({interface: backend}, {interface: reason in words}). Every link is in one of the two.
    """
    found: dict[str, str] = {}
    why: dict[str, str] = {}
    for link in common.sort_links(links):
        name = link["interface"]
        below = list(common.get_bond(link).get("members", [])) or [
            common.get_vlan(link).get("parent", name)
        ]
        each = {one: found.get(one) or find_owner(run, read, listed, one) for one in below}
        if len(set(each.values())) == 1 and all(each.values()):
            found[name] = next(iter(each.values()))
        elif all(each.values()):
            parts = ["{} belongs to {}".format(*pair) for pair in sorted(each.items())]
            why[name] = "its members have different owners: " + ", ".join(parts)
        else:
            unowned = sorted(one for one, owner in each.items() if not owner)
            why[name] = "no program on this node configures " + ", ".join(unowned)
    return found, why


def prepare_links(read: Reader, listed: Lister, links: list[LinkSettings]) -> list[LinkSettings]:
    """Return the links with node data that a backend needs.

    ``alone``: no other netplan file defines the parent of the VLAN (netplan).
    """
    result: list[LinkSettings] = []
    for link in links:
        parent = common.get_vlan(link).get("parent", "")
        alone = bool(parent) and not netplan.is_known_to_netplan(read, listed, parent)
        result.append({**link, "alone": alone})
    return result
