"""What listens on services' ports of the plan on this node, as a watch sees it: beside the job, or for this node alone.

Pure. Runs on nodes. Clients that get no answer are the judge's. A port that refuses leaves no socket behind: who is
refused says so itself (Ray), or has an address that is tried (JAX).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import fullmesh_sockets as sockets
import fullmesh_watch_judge as judge

if TYPE_CHECKING:
    from fullmesh.observed.watch import Endpoint, MaybeWho, Picture, Problem, Row

# Said, and no reason to end a job: its ranks may well be together.
HINTS = (judge.LOOPBACK,)
EVERY = ("0.0.0.0", "::")  # noqa: S104 (read in /proc, nothing is bound)


def is_loopback(address: str) -> bool:
    """Say whether only this node itself reaches an address."""
    return address.startswith("127.") or address == "::1"


def held(
    plan: MaybeWho, picture: Picture, where: Endpoint, own: list[str], me: str
) -> list[Problem]:
    """Name a coordinator's port that something beside the job listens on: some connections, or all, go to that one.

    *own*: the endpoint's addresses that are this node's.
    """
    found: list[Row] = [
        row
        for row in picture["others"]
        if row["port"] == where["port"] and (row["address"] in EVERY or row["address"] in own)
    ]
    if not own or not found:
        return []
    problem = judge.at(judge.TAKEN, where, me)
    problem.update({"who": "somebody else", "node": me, "inode": found[0]["inode"]})
    problem["service"] = judge.service_at(plan, me, where["port"])
    problem["key"] = "{} {}".format(judge.TAKEN, where["port"])
    return [problem]


def explain_held(problem: Problem, holder: str) -> None:
    """Say who has the port."""
    problem["who"] = holder or "a process that is not ours to see"
    problem["why"] = (
        "it is none of this job, and processes of the job that come to the port meet it"
    )
    problem["next"] = "End it, or give the service another port in fullmesh_services"


def connected(picture: Picture, problem: Problem) -> bool:
    """Say whether the job has a connection to where it got no answer before."""
    place = (problem["host"], problem["port"])
    return any(
        row["state"] == sockets.ESTABLISHED and (row["peer"], row["peer_port"]) == place
        for row in picture["sockets"]
    )


def listened(plan: MaybeWho, picture: Picture, me: str) -> dict[int, tuple[str, Row]]:
    """Return the job's listeners on ports of services that nobody but this node reaches: port -> service, socket."""
    listeners = [row for row in picture["sockets"] if row["state"] == sockets.LISTEN]
    every = [*listeners, *picture["others"]]
    reached = {row["port"] for row in every if not is_loopback(row["address"])}
    found = {}
    for row in listeners:
        service = judge.service_at(plan, me, row["port"])
        if service and row["port"] not in reached:
            found[row["port"]] = (service, row)
    return found


def only_here(plan: MaybeWho, picture: Picture, me: str) -> list[Problem]:
    """Name what the job serves on loopback alone, although the plan has others reach it."""
    found = []
    for service, row in listened(plan, picture, me).values():
        problem = judge.base(judge.LOOPBACK, row["address"], row["port"], "service", me)
        problem.update({"who": f"the job ({me}, this node)", "node": me, "service": service})
        problem["key"] = "{} {}".format(judge.LOOPBACK, row["port"])
        problem["why"] = "no other node reaches that address, and the plan says that they may"
        address = next((n["address"] for n in judge.nodes_of(plan) if n["name"] == me), "")
        problem["next"] = f"Let it listen on {address}, or on every address"
        found.append(problem)
    return found
