"""Processes: who holds a port, who was killed, who was denied something."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.rules.ports import JOB
from fullmesh.observed.survey import Listener
from fullmesh.result.findings import Finding

KILLED = ("out of memory", "segfault")
OURS = re.compile(r"python|torch|pt_|nccl|deepspeed|accelerate|ray", re.IGNORECASE)
HOUR = 3600.0


def is_live_job_port(look: ClusterEvidence, port: int) -> bool:
    """Whether ranks of a job at this port run on two nodes: then the port is where it belongs."""
    where = {
        name
        for name in look.nodes
        for job in look.survey(name).get("jobs", [])
        if job["environment"].get("MASTER_PORT") == str(port)
    }
    return len(where) > 1


def find_port_holder(look: ClusterEvidence, name: str, port: int) -> Listener | None:
    """Who listens on a port."""
    listening = look.survey(name).get("sockets", {}).get("listening", [])
    return next((one for one in listening if one["port"] == port and one["pid"]), None)


def rule_stale_job(look: ClusterEvidence) -> Iterator[Finding]:
    """A job of before still sits on the master or rendezvous port: its store would answer the new ranks."""
    for name in look.nodes:
        for port in look.seen.nodes[name]["node"]["ports"]:
            if not port["error"] or port["kind"] not in ("master", "rendezvous"):
                continue
            who = find_port_holder(look, name, port["port"])
            if (
                who is None
                or not JOB.search(who["command"])
                or is_live_job_port(look, port["port"])
            ):
                continue
            age = f"{who['age'] / HOUR:.1f} h" if who["age"] >= HOUR else f"{who['age']:.0f} s"
            yield Finding(
                "DG-130",
                "L1",
                f"a job that was started {age} ago still holds the {port['kind']} port {port['port']} on {name}",
                node=name,
                port=f"{port['port']}/tcp",
                seen=f"pid {who['pid']}: {who['command'][:120]}",
                expected="free",
                fix=f"on {name}: kill {who['pid']}; look for its ranks on the other nodes: pgrep -af torch",
            )


def rule_killed_ranks(look: ClusterEvidence) -> Iterator[Finding]:
    """The kernel did not end a rank: the others then wait for it until their time is over."""
    for name in look.nodes:
        for event in look.survey(name).get("kernel_log", []):
            if event["kind"] in KILLED and OURS.search(event["text"]):
                what = "killed" if event["kind"] == KILLED[0] else "stopped"
                yield Finding(
                    "DG-133",
                    "L1",
                    f"the kernel {what} a process of a job on {name} {event['age'] / 60:.0f} min ago ({event['kind']})",
                    node=name,
                    seen=event["text"],
                    expected="ranks that live",
                    fix=f"on {name}: journalctl -k --since -30min; give the job less memory per rank, or the node more",
                )
                break


def rule_selinux_denials(look: ClusterEvidence) -> Iterator[Finding]:
    """SELinux let a job do what it needs."""
    for name in look.nodes:
        held = look.survey(name).get("selinux", {})
        denied = [d for d in held.get("denials", []) if OURS.search(d["command"])]
        if denied and held.get("mode") == "enforcing":
            yield Finding(
                "DG-151",
                "L1",
                f"SELinux on {name} denied something to {denied[-1]['command']}",
                node=name,
                seen=denied[-1]["text"],
                expected="no denial",
                fix=f"on {name}: ausearch -m avc -ts recent | audit2why; role selinux_mode can make a policy of it",
            )


RULES = (rule_stale_job, rule_killed_ranks, rule_selinux_denials)
