"""Processes of jobs, and the ports that they hold."""

from __future__ import annotations

import re

from fullmesh.causes.evidence import ClusterEvidence

OURS = re.compile(r"python|torch|pt_|nccl|deepspeed|accelerate|ray", re.IGNORECASE)


def is_live_job_port(evidence: ClusterEvidence, port: int) -> bool:
    """Return whether ranks of a job at this port run on two nodes, so that the job is active."""
    where = {
        name
        for name in evidence.nodes
        for job in evidence.survey(name).get("jobs", [])
        if job["environment"].get("MASTER_PORT") == str(port)
    }
    return len(where) > 1
