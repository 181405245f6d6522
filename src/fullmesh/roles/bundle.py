"""Plan a bundle for air-gapped installation: its contents, its target machines, and the nodes that it does not fit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.node_values import WORD
from fullmesh.observed.bundle import BundleContents, BundleSource, WheelSet
from fullmesh.roles.torch_runtime import find_python_version

CODES: dict[str, str] = {
    "BN-101": "There is no bundle, or the file is not one",
    "BN-102": "The bundle is damaged",
    "BN-103": "The bundle was made for a different system than a node's",
    "BN-104": "The bundle has no wheels for a node's Python, machine or lock",
    "BN-106": "The machine that packs the bundle already has some of its packages (warning)",
    "BN-105": "A package manager could not fetch packages for the bundle",
    "BN-107": "Other users can write to the folder that collects the bundle's packages",
    "BN-108": "A repository is signed with an unexpected key",
    "BN-109": "A node reports a distribution, release or machine that is not a word",
}


class BundlePart(TypedDict):
    """The contents for one kind of node: a tar of packages, names of wheels, and their target."""

    kind: str
    packages: str
    wheels: list[str]
    target: WheelSet


def derive_node_kind(facts: Mapping[str, Any]) -> str:
    """Return the kind of a node: distribution, release and machine, as one word for a folder name.

    Nodes of one kind need the same packages.

    Raises:
        InvalidInputError: a node reports something that is not a word.
    """
    names = ("distribution", "distribution_major_version", "architecture")
    parts = [str(facts[name]) for name in names]
    for name, part in zip(names, parts, strict=True):
        if not WORD.match(part):
            text = f"a node reports {part[:80]!r} as its {name}"
            step = "Check: the node (it is broken, or not yours). Fix: leave it out with --limit"
            raise InvalidInputError([Fault("BN-109", text, step)])
    return "-".join(parts)


def list_first_of_kind(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List the first host of each kind, in the given order."""
    found: dict[str, str] = {}
    for host, known in facts.items():
        found.setdefault(derive_node_kind(known), host)
    return list(found.values())


def derive_lock_name(text: str) -> str:
    """Name a lock by its content."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_bundle_faults(
    contents: BundleContents, node: str, facts: Mapping[str, Any], interpreter: str, lock: str
) -> list[Fault]:
    """Return why this bundle cannot install a node. *lock* is the text of its lock."""
    found = []
    if derive_node_kind(facts) not in contents["kinds"]:
        text = f"{node} is {derive_node_kind(facts)}, but the bundle is for {', '.join(sorted(contents['kinds']))}"
        step = "Make a bundle with a machine like it: ./fullmesh bundle -i <inventory with one of each kind>"
        found.append(Fault("BN-103", text, step))
    wanted: WheelSet = {
        "python": find_python_version(interpreter, ""),
        "machine": str(facts["architecture"]),
        "lock": derive_lock_name(lock),
    }
    if not wanted["python"]:
        return found
    if wanted not in contents["wheels"]:
        there = sorted({f"Python {w['python']} {w['machine']}" for w in contents["wheels"]})
        same = any({**w, "lock": ""} == {**wanted, "lock": ""} for w in contents["wheels"])
        what = "this lock" if same else f"Python {wanted['python']} {wanted['machine']}"
        text = f"{node} needs wheels for {what}, but the bundle has {', '.join(there)}"
        step = "Make the bundle with the same torch_runtime settings as the cluster"
        found.append(Fault("BN-104", text, step))
    return found


def list_bundle_hosts(facts: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """Do the same as `list_first_of_kind`, from Ansible's hostvars."""
    return list_first_of_kind({host: facts[host]["ansible_facts"] for host in hosts})


def list_bundle_sources(
    parts: Sequence[BundlePart], controller: Mapping[str, Sequence[str]], root: str, cache: str
) -> list[BundleSource]:
    """List the files of the archive and their places in it."""
    files = f"{cache}/wheels/files"
    wheels = sorted({name for part in parts for name in part["wheels"]})
    found: list[BundleSource] = [{"place": "project.tar", "project": root}]
    found += [{"place": "wheels", "path": f"{files}/{name}"} for name in wheels]
    found += [{"place": "controller", "path": f"{files}/{name}"} for name in controller["wheels"]]
    for part in parts:
        found.append({"place": f"packages/{part['kind']}.tar", "file": part["packages"]})
    return found


def collect_bundle_contents(parts: Sequence[BundlePart]) -> BundleContents:
    """Return the machines that the archive is for."""
    wheels: list[WheelSet] = []
    for part in parts:
        if part["target"] not in wheels:
            wheels.append(part["target"])
    return {"kinds": sorted(part["kind"] for part in parts), "wheels": wheels}
