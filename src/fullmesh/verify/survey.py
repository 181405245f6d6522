"""What the survey of a node holds (module_utils/fullmesh/survey/node.py), and the one place that knows where it stands.

Only what the rules of both ladder and diagnosis read of GPUs and RDMA is spelled out; the rest is the diagnosis' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, TypedDict, cast

PLACE = (
    "node",
    "facts",
    "survey",
)  # of what was kept of a node: library/ladder_node.py returns it among the facts


class Card(TypedDict, total=False):
    """A GPU as nvidia-smi shows it; texts are empty where a driver has no such field."""

    name: Required[str]
    uuid: Required[str]
    memory: Required[str]
    bus: str
    persistence: str
    ecc_mode: str
    ecc: str
    ecc_volatile: int
    ecc_aggregate: int
    remap_failed: str
    remap_pending: str
    width: str
    width_most: str
    generation: int
    generation_most: int
    mig: str
    fabric: str


class Device(TypedDict):
    """A GPU as the PCI bus shows it, with the driver that holds it, if any."""

    bus: str
    device: str
    driver: str


class Gpus(TypedDict, total=False):
    """The GPUs of a node; ``failed``: the driver is loaded and nvidia-smi does not work."""

    present: bool
    cards: list[Card]
    pci: list[Device]
    driver: str
    cuda: str
    failed: bool


class Port(TypedDict):
    """A port of an RDMA device."""

    device: str
    port: int
    state: str
    physical: str
    layer: str
    rate: str
    vendor: str
    gids: list[Mapping[str, Any]]


class Event(TypedDict):
    """A message of the kernel that explains a failure; ``age`` in seconds."""

    kind: str
    age: float
    text: str


class Survey(TypedDict, total=False):
    """One look at a node. What could not be looked at is missing or empty, and stands in ``unknown``."""

    root: bool
    range: list[int]
    manifest: bool
    unknown: list[dict[str, str]]
    environment: Mapping[str, Any]
    namespaces: list[Mapping[str, Any]]
    nft: Mapping[str, Any]
    firewalld: Mapping[str, Any]
    gpus: Gpus
    routes: Mapping[str, Mapping[str, Any]]
    neighbours: Mapping[str, Any]
    interfaces: list[Mapping[str, Any]]
    sockets: Mapping[str, Any]
    kernel_log: list[Event]
    selinux: Mapping[str, Any]
    jobs: list[Mapping[str, Any]]
    efa: Mapping[str, Any]
    duplicates: list[str]
    sysctls: Mapping[str, str]
    limits: Mapping[str, int]
    clock: Mapping[str, Any]
    rdma: list[Port]
    legacy_tables: list[str]
    reverse: Mapping[str, Any]
    own_answers: list[str]
    master_answers: list[str]
    shm: Mapping[str, int]
    disk: Mapping[str, int]
    seconds: float


def survey_of(node: object) -> Survey:
    """The survey in what was kept of a node, {} where there is none; *node* may be anything that a node said."""
    held: Any = node
    for key in PLACE:
        held = held.get(key) if isinstance(held, Mapping) else None
    return cast("Survey", held if isinstance(held, Mapping) else {})
