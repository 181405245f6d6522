"""Check the listeners on the plan's service ports on this node.

They may belong to a program outside of the job, or listen on loopback only.

Without side effects. Runs on nodes. fullmesh_watch_judge handles clients without an answer. A refused connection leaves
no socket: the client reports it (Ray), or its address is probed (JAX).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import fullmesh_sockets as sockets
import fullmesh_watch_judge as watch_judge

if TYPE_CHECKING:
    from fullmesh.observed.watch import (
        JobEndpoint,
        JobProblem,
        JobSnapshot,
        PartialParticipants,
        WatchedSocket,
    )

# Said, and no reason to end a job: its ranks may well be together.
HINTS = (watch_judge.LOOPBACK,)
EVERY = ("0.0.0.0", "::")  # noqa: S104 (read in /proc, nothing is bound)


def is_loopback_only(address: str) -> bool:
    """Return whether only this node itself reaches an address."""
    return address.startswith("127.") or address == "::1"


def find_taken_ports(
    plan: PartialParticipants, picture: JobSnapshot, where: JobEndpoint, own: list[str], me: str
) -> list[JobProblem]:
    """Report a coordinator's port with a listener outside of the job, which receives some or all connections.

    *own*: the endpoint's addresses that are this node's.
    """
    found: list[WatchedSocket] = [
        row
        for row in picture["others"]
        if row["port"] == where["port"] and (row["address"] in EVERY or row["address"] in own)
    ]
    if not own or not found:
        return []
    problem = watch_judge.build_endpoint_problem(watch_judge.TAKEN, where, me)
    problem.update({"who": "somebody else", "node": me, "inode": found[0]["inode"]})
    problem["service"] = watch_judge.find_service_at(plan, me, where["port"])
    problem["key"] = "{} {}".format(watch_judge.TAKEN, where["port"])
    return [problem]


def explain_taken_port(problem: JobProblem, holder: str) -> None:
    """Describe the process that has the port."""
    problem["who"] = holder or "a process that this account cannot see"
    problem["why"] = (
        "it does not belong to this job, but receives the job's connections to this port"
    )
    problem["next"] = "End it, or give the service another port in fullmesh_services"


def is_now_connected(picture: JobSnapshot, problem: JobProblem) -> bool:
    """Return whether the job is now connected to an endpoint that did not answer before."""
    place = (problem["host"], problem["port"])
    return any(
        row["state"] == sockets.ESTABLISHED and (row["peer"], row["peer_port"]) == place
        for row in picture["sockets"]
    )


def find_loopback_listeners(
    plan: PartialParticipants, picture: JobSnapshot, me: str
) -> dict[int, tuple[str, WatchedSocket]]:
    """Return the job's listeners on service ports that only this node can reach: port -> service, socket."""
    listeners = [row for row in picture["sockets"] if row["state"] == sockets.LISTEN]
    every = [*listeners, *picture["others"]]
    reached = {row["port"] for row in every if not is_loopback_only(row["address"])}
    found = {}
    for row in listeners:
        service = watch_judge.find_service_at(plan, me, row["port"])
        if service and row["port"] not in reached:
            found[row["port"]] = (service, row)
    return found


def find_loopback_services(
    plan: PartialParticipants, picture: JobSnapshot, me: str
) -> list[JobProblem]:
    """Report services of the job that only listen on loopback, although the plan opens them to others."""
    found = []
    for service, row in find_loopback_listeners(plan, picture, me).values():
        problem = watch_judge.build_problem(
            watch_judge.LOOPBACK, row["address"], row["port"], "service", me
        )
        problem.update({"who": f"the job ({me}, this node)", "node": me, "service": service})
        problem["key"] = "{} {}".format(watch_judge.LOOPBACK, row["port"])
        problem["why"] = (
            "other nodes cannot reach that address, but the plan opens this port to them"
        )
        address = next(
            (n["address"] for n in watch_judge.list_planned_nodes(plan) if n["name"] == me), ""
        )
        problem["next"] = f"Let it listen on {address}, or on every address"
        found.append(problem)
    return found
