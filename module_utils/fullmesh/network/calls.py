# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What static_ip_links is asked for and what each of its calls answers, as types. Stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ..answer import Diff
    from ..transaction.engine import RestoreReport
    from .types import LinkSettings


class StaticIpParams(TypedDict):
    """What static_ip_links is asked for; its documentation says what each of them is."""

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
    """Links that the kernel lacks, and the address for reconnecting ("" if the connection can stay)."""

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
    """Whether a new connection carries this call; *ballast* makes the answer larger than any packet.

    *lost*: the commands that would put there again what others had on the links, and that the kernel refused.
    """

    changed: bool
    fresh: bool
    ballast: str
    lost: list[str]


class LinkRestoreResult(TypedDict):
    """What the node has put back."""

    changed: bool
    report: RestoreReport
