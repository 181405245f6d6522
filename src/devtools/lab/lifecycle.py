"""Start, stop and show whole labs."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devtools.lab import dhcp, host, nodes, plan, source, state, subnets
from devtools.lab.build import Builder
from devtools.lab.console import say
from devtools.lab.errors import LabError
from devtools.lab.locks import held
from devtools.lab.paths import Paths
from devtools.lab.podman import Podman
from devtools.lab.state import Lab, Store

LOCK_SECONDS = 900.0
ALLOCATION_SECONDS = 60.0
KEEP_COMPILED_SECONDS = 7 * 86400.0


@dataclass(frozen=True)
class Wish:
    """The options of `lab up`; None means unchanged, or the default."""

    name: str
    count: int | None = None
    families: tuple[str, ...] | None = None
    ipv6: bool | None = None
    outsider: bool = False
    dhcp: bool | None = None
    compiled: bool = True


def open_podman(paths: Paths) -> Podman:
    """Return podman with its configuration."""
    host.require_root()
    host.ensure_packages(paths)
    podman = Podman(paths)
    podman.prepare()
    return podman


def allocate(paths: Paths, name: str) -> int:
    """Return the lab's index, recorded under a lock so that two labs never share one."""
    file = paths.home / "allocations.json"
    with held(paths.home / "locks" / "allocations", "the subnet list", ALLOCATION_SECONDS):
        allocations = subnets.load(file)
        index = subnets.choose(name, allocations, host.networks_in_use(), host.link_names())
        if allocations.get(name) != index:
            subnets.save(file, {**allocations, name: index})
    return index


def release(paths: Paths, name: str) -> None:
    """Release the lab's index."""
    file = paths.home / "allocations.json"
    with held(paths.home / "locks" / "allocations", "the subnet list", ALLOCATION_SECONDS):
        allocations = subnets.load(file)
        if allocations.pop(name, None) is not None:
            subnets.save(file, allocations)


def merge(wish: Wish, recorded: Lab | None, index: int, found: source.Source) -> Lab:
    """Return the lab to create: the recorded one plus the nodes that the options add.

    Existing nodes are never removed here. LB-114 if the options contradict the existing lab.
    """
    if recorded is None:
        families, ipv6 = wish.families or found.families, bool(wish.ipv6)
        lab = Lab(wish.name, index, ipv6, found.kind, found.note, list(families))
        lab.images = dict(found.images)
        lab.dhcp = bool(wish.dhcp)
        count = wish.count or plan.DEFAULT_NODES
    else:
        lab = recorded
        peers = sum(1 for node in lab.nodes if not node.outsider)
        count = max(wish.count or 0, peers)
        _refuse_contradiction(wish, lab)
    had_outsider = any(node.outsider for node in lab.nodes)
    lab.nodes = plan.nodes(lab.name, index, lab.families, count, lab.ipv6)
    if wish.outsider or had_outsider:
        lab.nodes.append(plan.outsider(lab.name, index, lab.ipv6))
    if lab.dhcp:
        lab.nodes = plan.leased(lab.nodes, index, lab.ipv6)
    return lab


def _refuse_contradiction(wish: Wish, lab: Lab) -> None:
    """Raise LB-114 if the options would turn an existing lab into another one."""
    clashes = []
    if wish.families is not None and list(wish.families) != lab.families:
        clashes.append(f"families {','.join(lab.families)}")
    if wish.ipv6 and not lab.ipv6:
        clashes.append("IPv4 cluster addresses")
    if wish.dhcp and not lab.dhcp:
        clashes.append("two networks")
    if clashes:
        raise LabError(
            "LB-114",
            f"lab {lab.name!r} is up with {' and '.join(clashes)}",
            f"Take it down first: fullmesh lab down --name {lab.name}",
        )


def up(paths: Paths, wish: Wish) -> Lab:
    """Bring the lab up: build missing images, start stopped nodes, wait until ssh answers."""
    begun = time.monotonic()
    podman = open_podman(paths)
    store = Store(paths, wish.name)
    with held(paths.home / "locks" / f"lab-{wish.name}", f"lab {wish.name}", LOCK_SECONDS):
        recorded = store.load()
        if recorded is None:
            found = source.choose_image_source(wish.families)
        else:
            found = source.Source(recorded.image_source, recorded.note, recorded.images)
        lab = merge(wish, recorded, allocate(paths, wish.name), found)
        builder = Builder(paths, podman, found.kind, plan.list_families(lab.nodes), lab.images)
        builder.ensure()
        store.save(lab)
        nodes.ensure_networks(podman, lab)
        images = {stage: builder.image(stage) for stage in builder.stages}
        volumes = {builder.folder(name): f"{place}:ro" for name, place in builder.folders().items()}
        if wish.compiled:
            volumes[kept_code(paths)] = "/var/cache/lab-compiled"
        nodes.ensure_running(podman, lab, images, volumes)
        if lab.dhcp:
            dhcp.serve(paths, lab, store.folder)
        nodes.ensure_ready(podman, store, lab)
        written = store.write_inventory(lab)
    say(f"lab {lab.name} is up after {time.monotonic() - begun:.1f} s; inventory: {written[-1]}")
    return lab


def kept_code(paths: Paths) -> Path:
    """Return the folder of compiled code. Files that are a week old are removed first."""
    paths.compiled.mkdir(exist_ok=True)
    oldest = time.time() - KEEP_COMPILED_SECONDS
    for file in paths.compiled.iterdir():
        if file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)
    return paths.compiled


def down(paths: Paths, name: str) -> None:
    """Remove one lab with all its files; images and repositories stay."""
    podman = open_podman(paths)
    store = Store(paths, name)
    with held(paths.home / "locks" / f"lab-{name}", f"lab {name}", LOCK_SECONDS):
        lab = require(store)
        nodes.remove(podman, lab)
        dhcp.stop(lab, store.folder)
        shutil.rmtree(store.folder)
        release(paths, name)
        if name == plan.DEFAULT_NAME:
            (paths.checkout / "inventory" / "lab" / "hosts.yml").unlink(missing_ok=True)
    say(f"lab {name} is down")


def purge(paths: Paths) -> None:
    """Remove images, repositories and the namespace too, if no lab is left."""
    podman = open_podman(paths)
    podman.run("system", "reset", "--force", timeout=300)
    podman.drop_namespace()
    shutil.rmtree(paths.home, ignore_errors=True)
    shutil.rmtree(paths.run, ignore_errors=True)
    say(f"removed {paths.home}")


def require(store: Store) -> Lab:
    """Return the recorded lab; LB-107 if none has this name."""
    lab = store.load()
    if lab is None:
        known = ", ".join(state.names(store.paths)) or "none"
        raise LabError(
            "LB-107",
            f"no lab is called {store.name!r} (there: {known})",
            f"Bring it up: fullmesh lab up --name {store.name}",
        )
    return lab


def node_of(lab: Lab, name: str) -> plan.Node:
    """Return a node by its inventory name; LB-106 if the lab has no such node."""
    for node in lab.nodes:
        if name == node.name:
            return node
    raise LabError(
        "LB-106",
        f"lab {lab.name!r} has no node {name!r}",
        f"Its nodes: {', '.join(node.name for node in lab.nodes)}.",
    )


def status(paths: Paths, name: str, states: dict[str, str]) -> dict[str, Any]:
    """Return the recorded values of one lab; *states* comes from podman."""
    store = Store(paths, name)
    lab = require(store)
    return {
        "name": lab.name,
        "image_source": lab.image_source,
        "note": lab.note,
        "controller": lab.controller,
        "nodes": [
            {
                "name": node.name,
                "family": node.family,
                "os": plan.name_system(node.family, lab.images[node.family]),
                "container": node.container,
                "hostname": node.hostname,
                "management_address": node.management_address,
                "cluster_interface": plan.CLUSTER_INTERFACE,
                "cluster_address": node.cluster_address,
                "outsider": node.outsider,
                "running": states.get(node.container) == "running",
            }
            for node in lab.nodes
        ],
        "inventory": str(store.inventory),
    }


def inventory_path(paths: Paths, name: str) -> Path:
    """Return the path of a lab's inventory."""
    return Store(paths, name).inventory
