# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define the parameters and answers of static_ip_links as types. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ..answer import Diff
    from ..transaction.engine import RestoreReport
    from .types import LinkSettings


class StaticIpParams(TypedDict):
    """The parameters of static_ip_links. The module documents them."""

    state: str
    links: list[LinkSettings]
    provider: str
    peers: list[str]
    master: str
    check_duplicates: bool
    wait_seconds: int
    rollback_seconds: int
    token: str


class LinkCheckResult(TypedDict):
    """Differences of the links in the kernel, and the address for reconnecting ("" if the connection can stay)."""

    changed: bool
    needed: bool
    armed: bool
    files: list[str]
    paths: list[str]
    interfaces: list[str]
    lacking: list[str]
    moves_to: str


class HeardPeers(TypedDict):
    """Peers that answered before the change, and those that did not."""

    answered: list[str]
    silent: list[str]


class LinkChangeResult(LinkCheckResult, HeardPeers):
    """A change that is armed, or would be."""

    remembered: bool
    providers: dict[str, str]
    adopted: list[str]
    tried: str
    diff: list[Diff]


class LinkUndoResult(TypedDict):
    """An undo that is armed, or would be."""

    changed: bool
    needed: bool
    armed: bool
    paths: list[str]
    moves_to: str
    tried: str
    diff: list[Diff]


class LinkProofResult(TypedDict):
    """Whether this call uses a new connection. *ballast* makes the answer larger than any packet.

    *lost*: the commands for other owners' state on the links that the kernel rejected.
    """

    changed: bool
    fresh: bool
    ballast: str
    lost: list[str]


class LinkRestoreResult(TypedDict):
    """The report of the node's restore."""

    changed: bool
    report: RestoreReport
