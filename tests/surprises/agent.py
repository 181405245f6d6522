"""The three calls of a diagnosis on a node, without Ansible around them: the same code, in a fraction of the time."""

from __future__ import annotations

import json
import sys

from ansible.module_utils.fullmesh.detach import make_run_directory
from ansible.module_utils.fullmesh.facts.sockets import family_of
from ansible.module_utils.fullmesh.probe.first_call import look, open_ports
from ansible.module_utils.fullmesh.probe.job import start
from ansible.module_utils.fullmesh.probe.job_account import as_job
from ansible.module_utils.fullmesh.probe.observe import observe_nccl
from ansible.module_utils.fullmesh.probe.pairs import probe_links
from ansible.module_utils.fullmesh.probe.ways import odd_ways
from ansible.module_utils.fullmesh.survey.net import neighbours


def look_and_listen(want):
    """ladder_node."""
    make_run_directory(want["run"])
    facts = look(want)
    opened = open_ports(want, facts)
    said = {"facts": facts, "ports": opened["ports"], "tapped": opened["tapped"]}
    device = facts["addresses"].get(want["address"])
    if want["nccl"] and device:
        said["nccl"] = observe_nccl(device, family_of(want["address"]))
    return said


def connect(want):
    """ladder_links."""
    links = probe_links(want["targets"], want["me"], want["seconds"], 8192)
    met = as_job(want["targets"], links, want["me"], want["seconds"], want["job_user"])
    return {
        **({"as_job": met} if met else {}),
        "links": links,
        "seconds": 0.0,
        "bandwidth": [],
        "neighbours": neighbours(sorted({t["address"] for t in want["targets"]})),
        "ways": odd_ways(want["me"]["address"], want["targets"], links),
    }


def stop(want):
    """ladder_gloo."""
    return start({**want, "ranks": [], "brief": False})


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    calls = {"node": look_and_listen, "links": connect, "stop": stop}
    sys.stdout.write(json.dumps(calls[asked["call"]](asked["want"])))
