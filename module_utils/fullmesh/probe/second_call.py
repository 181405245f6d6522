# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the second call of the verification on a node: connect to every listener of every peer.

Runs on nodes: standard library only. Called by library/ladder_links.py, or for all nodes at once.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, cast

from ..detach import BASE, run_directory
from ..lease import end_with_lease
from ..survey.net import survey_neighbours
from .handshake import PAYLOAD_LIMIT
from .job_account import probe_as_job_account
from .job_network import probe_job_networks
from .pairs import measure_rates, probe_links, refute_black_holes
from .ways import find_unusual_routes

if TYPE_CHECKING:
    from typing import Any

    from ..schema.ladder import LadderLinksResult, ProbeOrigin, ProbeTarget, SweepTarget

SPARE = 64  # descriptors that Python and Ansible have open already
WINDOW = 8192


def choose_connection_window() -> int:
    """Return the number of simultaneous connections, after raising the limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        wanted = WINDOW + SPARE if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        soft = max(soft, wanted)
    return max(16, min(WINDOW, soft - SPARE))


def connect_to_peers(**want: Any) -> LadderLinksResult:
    """Connect to the listeners of the peers. *want*: the parameters of ladder_links."""
    me = cast("ProbeOrigin", {key: want[key] for key in ("node", "address", "token", "payload")})
    if want["attached"] and want["run"]:
        end_with_lease(run_directory(want["run"], BASE))
    begun = time.monotonic()
    said: LadderLinksResult = {
        "links": [],
        "bandwidth": [],
        "neighbours": {"count": 0, "entries": {}},
        "seconds": 0.0,
    }
    targets: list[ProbeTarget] = want["targets"]
    if want["sweep"]:
        from . import sweep  # noqa: PLC0415 (only large clusters are swept)

        rows: list[SweepTarget] = want["sweep"]
        found, tried = sweep.sweep_peers(rows, me, want["seconds"], want["at_once"], want["budget"])
        said["links"], said["swept"] = sweep.condense_sweep(rows, tried, found, want["master"])
        odd = {record["node"] for record in said["links"]}
        targets = [sweep.row_to_target(row) for row in rows if row["node"] in odd]
    else:
        said["links"] = probe_links(targets, me, want["seconds"], choose_connection_window())
        if want["as_job"]:
            met = probe_as_job_account(
                targets, said["links"], me, want["seconds"], want["job_user"]
            )
            if met:
                said["as_job"] = met
            inner = probe_job_networks(targets, said["links"], me, want["seconds"])
            if inner:
                said["networks"] = inner
    said["links"], slow = refute_black_holes(said["links"], targets, me, want["seconds"])
    if want["rails"]:
        from . import rails  # noqa: PLC0415 (few clusters have rails)

        said["rails"] = rails.probe_rails(want["rails"], me, want["seconds"])
    if want["rdma"]:
        from . import rdma, rdma_rates  # noqa: PLC0415 (few nodes have RDMA)

        limit = begun + want["rdma_seconds"]
        if want["bandwidth"]:
            rates = rdma_rates.measure_rdma_rates(want["rdma"], me, limit)
            said["rdma"] = {"pairs": [], "counters": {}, "rates": rates}
        else:
            said["rdma"] = rdma.probe_rdma(want["rdma"], me, limit)
    said["seconds"] = round(time.monotonic() - begun, 3)
    size = min(want["bandwidth"], PAYLOAD_LIMIT)
    if size:
        said["bandwidth"] = measure_rates(said["links"], targets, me, size, want["seconds"])
    measured = {rate["node"] for rate in said["bandwidth"]}
    said["bandwidth"] += [rate for rate in slow if rate["node"] not in measured]
    said["neighbours"] = survey_neighbours(sorted({str(target["address"]) for target in targets}))
    said["ways"] = find_unusual_routes(want["address"], targets, said["links"])
    return said
