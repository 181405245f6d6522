# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Repeat the connections as the account that jobs run as: a rule may block only that account.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..account import run_as_account
from ..survey.job_accounts import find_account_entry, find_job_account, find_unit_accounts
from . import login
from .pairs import probe_links

if TYPE_CHECKING:
    from typing import Callable

    from ..schema.ladder import JobProbe, LinkResult, ProbeOrigin, ProbeTarget

# Results of a rule about an account. Lost large packets or a low rate do not depend on the account.
SHUT = ("dropped", "rejected", "refused", "no_route", "reset")
EACH = 3  # listeners of a peer: of one account all data ports fare alike, but for rules that name a port


def select_targets_by_verdict(
    targets: list[ProbeTarget], links: list[LinkResult], verdicts: tuple[str, ...] = ("open",)
) -> list[ProbeTarget]:
    """Return a few listeners of each peer whose connection had one of the *verdicts*."""
    reached = {(one["node"], one["port"]) for one in links if one["verdict"] in verdicts}
    found: list[ProbeTarget] = []
    count: dict[str, int] = {}
    # the plan's own ports first: a rule may name them
    for target in sorted(targets, key=lambda one: one["kind"] in ("sample", "range")):
        if target["kind"] in ("outside", "held") or (target["node"], target["port"]) not in reached:
            continue
        data = target["kind"] in ("sample", "range")
        if data and count.get(target["node"], 0) >= EACH:
            continue
        count[target["node"]] = count.get(target["node"], 0) + data
        found.append(target)
    return found


def confirm_difference(
    wanted: list[ProbeTarget],
    as_them: Callable[[list[ProbeTarget]], list[LinkResult]],
    as_us: Callable[[list[ProbeTarget]], list[LinkResult]],
    theirs: tuple[str, ...] = SHUT,
    ours: tuple[str, ...] = ("open",),
) -> list[LinkResult]:
    """Return connections that the account cannot make, this process can, and the account still cannot (or vice versa).

    The third try is needed because a rule with a rate, or an interface that loses packets, hits single tries (seen).
    """
    left = wanted
    found: list[LinkResult] = []
    for turn, good in ((as_them, theirs), (as_us, ours), (as_them, theirs)):
        if not left:
            return []
        found = [one for one in turn(left) if one["verdict"] in good]
        kept = {(one["node"], one["port"]) for one in found}
        left = [one for one in left if (one["node"], one["port"]) in kept]
    return found


def find_account_only_links(
    wanted: list[ProbeTarget],
    as_them: Callable[[list[ProbeTarget]], list[LinkResult]],
    as_us: Callable[[list[ProbeTarget]], list[LinkResult]],
) -> list[LinkResult]:
    """Return connections to closed peers that the account can make, if it can make all those to a peer.

    Args:
        wanted: listeners that this process did not reach.
        as_them: connects as the account.
        as_us: connects as this process.
    """
    found = confirm_difference(wanted, as_them, as_us, ("open",), SHUT)
    reached = {(one["node"], one["port"]) for one in found}
    shut = {one["node"] for one in wanted if (one["node"], one["port"]) not in reached}
    return [one for one in found if one["node"] not in shut]


def probe_as_job_account(
    targets: list[ProbeTarget], links: list[LinkResult], me: ProbeOrigin, seconds: float, named: str
) -> JobProbe | None:
    """Return the account's results for listeners that this process could reach, and for those it could not.

    None if the account is unknown or cannot be used.

    Args:
        targets: listeners.
        links: the results of this process' own connections to them.
        me: the origin of the connections.
        seconds: deadline of one try.
        named: the account. Empty: find it.
    """
    if os.geteuid() != 0:
        return None
    who = find_job_account(named)
    wanted, shut = (
        select_targets_by_verdict(targets, links),
        select_targets_by_verdict(targets, links, SHUT),
    )
    if not who or not (wanted or shut):
        return None

    def ask(some: list[ProbeTarget]) -> list[LinkResult]:
        return probe_links(some, me, seconds, len(some))

    def ask_as_them(some: list[ProbeTarget]) -> list[LinkResult]:
        found: list[LinkResult] = run_as_account(who, lambda: ask(some))
        return found

    said: JobProbe = {"account": who.pw_name, "uid": who.pw_uid, "tried": len(wanted), "links": []}
    # no session for an account that is only known from a process's environment, since any account can set RANK=
    known = map(find_account_entry, (named,) if named else find_unit_accounts())
    held = login.read_login_limits(who) if who in known else None
    if held:
        said["login"] = held
    try:
        said["links"] = confirm_difference(wanted, ask_as_them, ask)
        beyond = find_account_only_links(shut, ask_as_them, ask)
        if beyond:
            said["past"] = beyond
    except OSError as exc:
        said["error"] = str(exc)
    return said
