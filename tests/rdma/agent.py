"""Run on a machine: survey it, and try pairs, one request for each line of standard input.

Emulated machines are slow: one process for all tests, and longer deadlines than on real nodes.
"""

from __future__ import annotations

import json
import sys
import time

sys.path.insert(0, sys.argv[1])
from fullmesh.detach import BASE, make_run_directory
from fullmesh.probe import rdma, rdma_rates
from fullmesh.probe.listeners import start_listeners
from fullmesh.survey import filters, job, net

rdma.SILENT_SECONDS, rdma.SECONDS, rdma.LEAST = 20.0, 90.0, 30.0
NODE, ADDRESS, TOKEN = sys.argv[2:]


def serve() -> int:
    """Start the listeners for the time of the tests, and return a port."""
    make_run_directory("soft-roce")
    opened = start_listeners(
        {
            "run": "soft-roce",
            "base": BASE,
            "token": TOKEN,
            "node": NODE,
            "address": ADDRESS,
            "interface": "",
            "samples": 1,
            "named": [],
            "outside": False,
            "allowed": [],
            "lifetime": 7200.0,
            "leased": False,
            "spread": [],
            "peers": [],
            "rails": [],
        }
    )
    return opened["ports"][0]["port"]


def survey() -> dict[str, object]:
    """Survey the parts that the tries need."""
    return {
        "rdma": job.survey_rdma(),
        "interfaces": net.survey_interfaces(net.read_interface_addresses()),
        "nft": filters.survey_ruleset()[0],
    }


def answer(request: dict[str, list[object]]) -> object:
    """Answer a request."""
    if "targets" not in request:
        return survey()
    me = {"node": NODE, "address": ADDRESS, "token": TOKEN, "payload": 0}
    if request.get("rate"):
        ends = time.monotonic() + rdma.SECONDS
        return rdma_rates.measure_rdma_rates(request["targets"], me, ends)
    return rdma.probe_rdma(request["targets"], me, time.monotonic() + 2 * rdma.SECONDS)


def write(value: object) -> None:
    """Write an answer."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


write(serve())
for line in sys.stdin:
    write(answer(json.loads(line)))
