"""Save the state that a run applied to a node (the manifest), and compare it with the present state.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from .answer import Note
from .facts import node
from .facts.fingerprint import describe_differences, fingerprint_path, read_sysctl_value
from .files import write_file_atomically
from .firewall import firewalld
from .foreign_text import parse_tool_json
from .packages import listed, sources
from .schema.node import Membership, ResolvedSettings
from .tools import systemctl

if TYPE_CHECKING:
    from .commands import Runner

PATH = "/var/lib/fullmesh/manifest.json"
SCHEMA = 1


class UnitState(TypedDict):
    """A unit of systemd."""

    active: bool
    enabled: bool


class OwnedAddress(TypedDict):
    """An address with its prefix, on an interface."""

    interface: str
    address: str


class OwnedItems(TypedDict):
    """The items that roles manage on a node.

    The values are the wanted states.

    Attributes:
        files: paths.
        sysctls: key -> value.
        services: unit -> its wanted state.
        packages: name -> version or "".
        held: those packages that must not be upgraded.
        sources: URLs of repositories.
        firewalld: names of zones, policies and sets.
        addresses: of the node.
        selinux: ``mode`` -> the running mode.
    """

    files: list[str]
    sysctls: dict[str, object]
    services: dict[str, object]
    packages: dict[str, str]
    held: list[str]
    sources: list[str]
    firewalld: list[str]
    addresses: list[OwnedAddress]
    selinux: dict[str, str]


# kind (``file``, ``sysctl``, ``held package``) -> name -> present state: a text, true or false, a unit's two words.
State = dict[str, dict[str, Any]]


class NodeManifest(TypedDict):
    """The state after a run.

    ``digest``: of the run's inputs. ``resolved``: values that the plan derived from the node.

    ``members``: the node's record of the list of nodes. ``gpus``: PCI addresses of its NVIDIA GPUs, for
    ``fullmesh-check``. ``roles``: the entry of each role in ``owned``. A manifest of an earlier version has neither.
    """

    schema: int
    digest: str
    owned: OwnedItems
    roles: dict[str, OwnedItems]
    state: State
    notes: list[Note]
    resolved: ResolvedSettings
    members: Membership
    gpus: list[str]


def parse_unit_states(text: str) -> dict[str, UnitState]:
    """Parse ``systemctl show -p Id,ActiveState,UnitFileState,Names`` into {unit: {active, enabled}}."""
    result: dict[str, UnitState] = {}
    for values in systemctl.parse_unit_blocks(text):
        state: UnitState = {
            "active": values.get("ActiveState") == "active",
            "enabled": values.get("UnitFileState", "") in ("enabled", "enabled-runtime", "alias"),
        }
        for name in (values.get("Names", "") + " " + values.get("Id", "")).split():
            result[name] = state
    return result


def read_service_states(
    names: Sequence[str], run: Runner = node.run_command
) -> dict[str, UnitState]:
    """Return {unit: {active, enabled}} of *names* with one systemctl call."""
    if not names:
        return {}
    units = [name if "." in name else name + ".service" for name in names]
    properties = ("Id", "Names", "ActiveState", "UnitFileState")
    seen = parse_unit_states(run(systemctl.build_show_command(properties, units))[1])
    gone: UnitState = {"active": False, "enabled": False}
    return {name: seen.get(unit, gone) for name, unit in zip(names, units)}


def read_packages(
    names: Sequence[str], run: Runner = node.run_command
) -> tuple[dict[str, str], list[str]]:
    """Return the versions of packages ("" if not installed), and which of them are held, from one call."""
    if not names:
        return {}, []
    manager = "apt" if node.find_package_manager() == "apt" else "dnf"
    found, held = listed.INSTALLED[manager](run, names)
    return {name: found.get(name, "") for name in names}, held


def fingerprint_firewalld(names: Sequence[str], run: Runner = node.run_command) -> dict[str, Any]:
    """Fingerprint Fullmesh's part of firewalld (zone, policies, ipsets), permanent and runtime."""
    if not names:
        return {}
    return dict(firewalld.fingerprint_zones(list(names), run=run))


def check_owned_addresses(wanted: Sequence[OwnedAddress]) -> dict[str, bool]:
    """Return {"eth1 10.0.0.11/24": whether the interface has the address}."""
    if not wanted:
        return {}
    have = {entry["name"]: entry["addresses"] for entry in node.list_interfaces()}
    return {
        "{} {}".format(one["interface"], one["address"]): one["address"]
        in have.get(one["interface"], [])
        for one in wanted
    }


def read_selinux_mode(wanted: dict[str, str]) -> dict[str, str]:
    """Return the runtime mode, with "" if the kernel has no SELinux."""
    if not wanted:
        return {}
    text = node.read_stripped("/sys/fs/selinux/enforce")
    return {"mode": {"1": "enforcing", "0": "permissive"}.get(text, "")}


def merge_owned(owned: Mapping[str, Mapping[str, object]]) -> OwnedItems:
    """Merge all roles' ``fullmesh_owned`` entries: lists joined, mappings united.

    Raises:
        ValueError: an entry is unknown or has another type.
    """
    total: dict[str, Any] = {
        "files": [],
        "sysctls": {},
        "services": {},
        "packages": {},
        "held": [],
        "sources": [],
        "firewalld": [],
        "addresses": [],
        "selinux": {},
    }
    for role in sorted(owned):
        for kind, value in owned[role].items():
            if kind not in total:
                raise ValueError(f"role {role}: fullmesh_owned does not know {kind!r}")
            known = total[kind]
            if isinstance(known, dict) and isinstance(value, dict):
                known.update(value)
            elif isinstance(known, list) and isinstance(value, (list, tuple)):
                known.extend(item for item in value if item not in known)
            else:
                what = type(value).__name__
                raise ValueError(f"role {role}: fullmesh_owned has a {what} as its {kind}")
    return cast("OwnedItems", total)


def observe_owned(owned: OwnedItems, run: Runner = node.run_command) -> State:
    """Return the present state of all items of *owned* (merged): {kind: {name: state}}."""
    # a manifest of an earlier version has neither held packages nor sources
    wanted = sorted(owned.get("held", []))
    packages, held = read_packages(sorted({*owned["packages"], *wanted}), run)
    return {
        "file": {path: fingerprint_path(path) for path in owned["files"]},
        "sysctl": {key: read_sysctl_value(key) for key in owned["sysctls"]},
        "service": read_service_states(sorted(owned["services"]), run),
        "package": {name: packages[name] for name in sorted(owned["packages"])},
        "held package": {name: name in held for name in wanted},
        "package source": {
            url: sources.describe_active_sources(url) for url in owned.get("sources", [])
        },
        "firewalld": fingerprint_firewalld(owned["firewalld"], run),
        "address": check_owned_addresses(owned["addresses"]),
        "selinux": read_selinux_mode(owned["selinux"]),
    }


def load_manifest(path: str = PATH) -> tuple[NodeManifest | None, str]:
    """Return (manifest or None, why there is none)."""
    if not os.path.exists(path):
        return None, "no manifest: Fullmesh has not configured this node yet"
    try:
        with open(path) as handle:
            manifest: NodeManifest = parse_tool_json(handle.read())
        if manifest["schema"] != SCHEMA:
            return None, "manifest has schema {}, this version writes {}".format(
                manifest["schema"],
                SCHEMA,
            )
        # a truncated or edited manifest must count as drift, never as an error
        merge_owned({**manifest.get("roles", {}), "all": manifest["owned"]})
        state = manifest["state"]
        whole = isinstance(state, dict) and all(isinstance(one, dict) for one in state.values())
        return (manifest, "") if whole else (None, "manifest cannot be read")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"manifest cannot be read: {error}"


def find_drift(digest: str, path: str = PATH, run: Runner = node.run_command) -> list[str]:
    """Return sentences about differences between the node and its manifest, [] if there are none."""
    manifest, why = load_manifest(path)
    if manifest is None:
        return [why]
    if manifest.get("digest") != digest:
        changed = "the inventory, the settings or the code changed since the last apply"
        return [f"inputs: {changed if manifest.get('digest') else 'the last apply left out roles'}"]
    return describe_differences(manifest["state"], observe_owned(manifest["owned"], run))


def load_manifest_notes(path: str = PATH) -> list[Note]:
    """Return the roles' notes about the node from its last run."""
    manifest = load_manifest(path)[0]
    return list(manifest.get("notes", [])) if manifest else []


def load_auto_settings(path: str = PATH) -> ResolvedSettings:
    """Return the values that the plan derived from the nodes in this node's last run, or {}."""
    manifest = load_manifest(path)[0]
    nothing: ResolvedSettings = {}
    held = manifest.get("resolved", nothing) if manifest else nothing
    return held if isinstance(held, dict) else nothing


def load_membership(path: str = PATH) -> Membership:
    """Return the node's record of the list of nodes without the names, or {}."""
    manifest = load_manifest(path)[0]
    nothing: Membership = {}
    held = manifest.get("members", nothing) if manifest else nothing
    if not isinstance(held, dict) or not {"digest", "room"} <= held.keys():
        return nothing
    return {"digest": held["digest"], "room": held["room"]}


def merge_peer_update(
    manifest: NodeManifest, now: State, paths: Sequence[str], members: Membership
) -> NodeManifest:
    """Return the manifest of a node after an update of its peers.

    The written *paths* are as now, the rest as before. Other changes since then still count as drift.
    """
    state = {kind: dict(held) for kind, held in manifest["state"].items()}
    for path in paths:
        if path in state.get("file", {}):
            state["file"][path] = now["file"].get(path, "absent")
    state["firewalld"] = now["firewalld"]
    return {**manifest, "state": state, "members": members}


def merge_partial_run(
    held: NodeManifest, new: NodeManifest, run: Runner = node.run_command
) -> NodeManifest:
    """Return the manifest of a node after a run of some roles, of which *new* is the manifest.

    Items of the other roles keep their state, so other changes since then still count as drift. If the inputs have
    changed, no digest fits any more: the other roles have not seen them.
    """
    # an earlier version does not say which role an item belongs to
    earlier = held.get("roles", {"": held["owned"]})
    roles = {**earlier, **new["roles"]}
    owned = merge_owned(roles)
    state = observe_owned(owned, run)
    notes = held.get("notes", [])
    for kind, items in state.items():
        before, ran = held["state"].get(kind, {}), new["state"].get(kind, {})
        items.update({name: before[name] for name in items if name in before and name not in ran})
    return {
        **held,
        "digest": new["digest"] if held.get("digest") == new["digest"] else "",
        "owned": owned,
        "roles": roles,
        "state": state,
        "notes": notes + [one for one in new["notes"] if one not in notes],
    }


def write_manifest(manifest: NodeManifest, path: str = PATH) -> None:
    """Write the manifest in one step, so that an interruption leaves no partial one."""
    write_file_atomically(path, json.dumps(manifest, indent=1, sort_keys=True) + "\n", 0o644)
