"""What listens on services' ports of the plan on this node, as a watch sees it: beside the job, or for this node alone.

Pure. Runs on nodes. Clients that get no answer are the judge's. A port that refuses leaves no socket behind: who is
refused says so itself (Ray), or has an address that is tried (JAX).
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
    """Say whether only this node itself reaches an address."""
    return address.startswith("127.") or address == "::1"


def find_taken_ports(
    plan: PartialParticipants, picture: JobSnapshot, where: JobEndpoint, own: list[str], me: str
) -> list[JobProblem]:
    """Name a coordinator's port that something beside the job listens on: some connections, or all, go to that one.

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
    """Say who has the port."""
    problem["who"] = holder or "a process that is not ours to see"
    problem["why"] = (
        "it is none of this job, and processes of the job that come to the port meet it"
    )
    problem["next"] = "End it, or give the service another port in fullmesh_services"


def is_now_connected(picture: JobSnapshot, problem: JobProblem) -> bool:
    """Say whether the job has a connection to where it got no answer before."""
    place = (problem["host"], problem["port"])
    return any(
        row["state"] == sockets.ESTABLISHED and (row["peer"], row["peer_port"]) == place
        for row in picture["sockets"]
    )


def find_loopback_listeners(
    plan: PartialParticipants, picture: JobSnapshot, me: str
) -> dict[int, tuple[str, WatchedSocket]]:
    """Return the job's listeners on ports of services that nobody but this node reaches: port -> service, socket."""
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
    """Name what the job serves on loopback alone, although the plan has others reach it."""
    found = []
    for service, row in find_loopback_listeners(plan, picture, me).values():
        problem = watch_judge.build_problem(
            watch_judge.LOOPBACK, row["address"], row["port"], "service", me
        )
        problem.update({"who": f"the job ({me}, this node)", "node": me, "service": service})
        problem["key"] = "{} {}".format(watch_judge.LOOPBACK, row["port"])
        problem["why"] = "no other node reaches that address, and the plan says that they may"
        address = next(
            (n["address"] for n in watch_judge.list_planned_nodes(plan) if n["name"] == me), ""
        )
        problem["next"] = f"Let it listen on {address}, or on every address"
        found.append(problem)
    return found
