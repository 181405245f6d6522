# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The second call of the verification on a node: connect to every listener of every peer.

Runs on nodes: standard library only. Asked by library/ladder_links.py, or of all nodes at once.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, cast

from ..detach import BASE, run_directory
from ..lease import end_with_lease
from ..survey.net import neighbours
from .handshake import PAYLOAD_LIMIT
from .job_account import as_job
from .job_network import networks
from .pairs import measure_all, probe_links
from .sweep import condense, sweep, target_of
from .ways import odd_ways

if TYPE_CHECKING:
    from typing import Any

    from ..schema.ladder import Me, Probe, SweepTarget, Target

SPARE = 64  # descriptors that Python and Ansible have open already
WINDOW = 8192


def window() -> int:
    """Say how many connections may be under way at once, after asking for all that we may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        wanted = WINDOW + SPARE if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        soft = max(soft, wanted)
    return max(16, min(WINDOW, soft - SPARE))


def answer(**want: Any) -> Probe:
    """Connect to the listeners of the peers; *want*: what ladder_links takes."""
    me = cast("Me", {key: want[key] for key in ("node", "address", "token", "payload")})
    if want["attached"] and want["run"]:
        end_with_lease(run_directory(want["run"], BASE))
    begun = time.monotonic()
    said: Probe = {
        "links": [],
        "bandwidth": [],
        "neighbours": {"count": 0, "entries": {}},
        "seconds": 0.0,
    }
    targets: list[Target] = want["targets"]
    if want["sweep"]:
        rows: list[SweepTarget] = want["sweep"]
        found, tried = sweep(rows, me, want["seconds"], want["at_once"], want["budget"])
        said["links"], said["swept"] = condense(rows, tried, found, want["master"])
        odd = {record["node"] for record in said["links"]}
        targets = [target_of(row) for row in rows if row["node"] in odd]
    else:
        said["links"] = probe_links(targets, me, want["seconds"], window())
        if want["as_job"]:
            met = as_job(targets, said["links"], me, want["seconds"], want["job_user"])
            if met:
                said["as_job"] = met
            inner = networks(targets, said["links"], me, want["seconds"])
            if inner:
                said["networks"] = inner
    said["seconds"] = round(time.monotonic() - begun, 3)
    size = min(want["bandwidth"], PAYLOAD_LIMIT)
    if size:
        said["bandwidth"] = measure_all(said["links"], targets, me, size, want["seconds"])
    said["neighbours"] = neighbours(sorted({str(target["address"]) for target in targets}))
    said["ways"] = odd_ways(want["address"], targets, said["links"])
    return said
