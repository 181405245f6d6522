"""Find the missing participants of a job and the causes, as sentences.

Without side effects. Runs on nodes.

The input and output types are in ``observed/watch.py``. Parts of the plan may be missing.

This file is long because the order of the sentences, which have priorities, must be visible in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import fullmesh_sockets as sockets

if TYPE_CHECKING:
    from typing import Callable

    from fullmesh.observed.watch import (
        JobEndpoint,
        JobProblem,
        JobSnapshot,
        Kind,
        PartialParticipants,
        ParticipantNode,
        PlannedService,
        WatchedProcess,
    )

    Resolve = Callable[[str], "list[str] | None"]

MISSING, UNREACHED, BLOCKED, GONE = "WA-101", "WA-102", "WA-103", "WA-104"
# Of services of the plan, see fullmesh_watch_services.
SHUT, TAKEN, LOOPBACK = "WA-180", "WA-181", "WA-182"
WHY = {
    "open": "it answers now, but the process has not connected: it is still starting, or waits for something else",
    "refused": "refused: nothing listens there (rank 0 is not started, or ended), or a firewall answers with a reset",
    "rejected": "rejected: a firewall answers that it is prohibited",
    "unroutable": "no route, or a firewall on the way answers that it is prohibited",
    "no_route": "no host answers ARP for that address: it is wrong, or the node or its link is down",
    "no_network": "this node has no route to that network",
    "dropped": "dropped: no answer at all, so a firewall there or between drops the packets",
    "unresolved": "this node cannot resolve the name",
    "waiting": "the name server does not answer",
    "loopback": "that is this node itself, but the other nodes look for it elsewhere",
}
START = (
    "Set MASTER_ADDR={} here, or start the job with fullmesh-torchrun",
    "Start the job with fullmesh-jax, which takes {} and the port from the plan",
)
FIREWALL = "firewall-cmd --get-active-zones; nft list ruleset"


def list_planned_nodes(plan: PartialParticipants) -> list[ParticipantNode]:
    """Return the planned nodes, or none."""
    return plan.get("nodes") or []


def find_node_at(plan: PartialParticipants, address: str) -> ParticipantNode | None:
    """Return the node that has an address."""
    for node in list_planned_nodes(plan):
        if address == node["address"] or address in (node.get("addresses") or []):
            return node
    return None


def find_node_name(plan: PartialParticipants, address: str) -> str:
    """Return the node with an address, or ""."""
    node = find_node_at(plan, address)
    return node["name"] if node else ""


def find_service_at(plan: PartialParticipants, node: str, port: int) -> str:
    """Return the plan's service for a TCP port of a node, such as ``ray gcs``, or ""."""
    found: list[PlannedService] = plan.get("services") or []
    for one in found:
        inside = int(one["first"]) <= port <= int(one["last"])
        if inside and one["protocol"] == "tcp" and node in one["nodes"]:
            return "{} {}".format(one["service"], one["part"])
    return ""


def format_node_ranks(node: ParticipantNode) -> str:
    """Return a node's ranks in the plan: ``rank 3`` or ``ranks 4-7``."""
    first, count = int(node["first_rank"]), int(node["local_ranks"])
    return f"rank {first}" if count == 1 else f"ranks {first}-{first + count - 1}"


def find_endpoints(picture: JobSnapshot) -> list[JobEndpoint]:
    """Return the endpoints that this node's processes need.

    They are the agents' rendezvous, the ranks' store and JAX's coordinator.
    """
    found: dict[tuple[str, int, Kind], list[WatchedProcess]] = {}
    for one in picture["processes"]:
        if one["rank"] is not None and one["master"] and one["port"]:
            found.setdefault((one["master"], one["port"], "store"), []).append(one)
        elif one["agent"]:
            kind: Kind = "static" if one["static"] else "rendezvous"
            found.setdefault((one["agent"][0], one["agent"][1], kind), []).append(one)
        elif one["coordinator"]:
            found.setdefault((*one["coordinator"], "service"), []).append(one)
    made: list[JobEndpoint] = [
        {"host": host, "port": port, "kind": of, "users": users}
        for (host, port, of), users in found.items()
    ]
    # torchrun's static rendezvous and its ranks' store are the same endpoint, and the ranks' data are more detailed
    stores = {(one["host"], one["port"]) for one in made if one["kind"] == "store"}
    return [
        one for one in made if one["kind"] == "store" or (one["host"], one["port"]) not in stores
    ]


def is_hosted_here(picture: JobSnapshot, port: int) -> bool:
    """Return whether the job listens on a port on this node."""
    return any(row["state"] == sockets.LISTEN and row["port"] == port for row in picture["sockets"])


def count_peer_connections(picture: JobSnapshot, port: int) -> dict[str, int]:
    """Count the connections to a port that the job listens on, by peer address."""
    found: dict[str, int] = {}
    for row in picture["sockets"]:
        if row["state"] == sockets.ESTABLISHED and row["port"] == port:
            found[row["peer"]] = found.get(row["peer"], 0) + 1
    return found


def count_node_connections(
    plan: PartialParticipants, picture: JobSnapshot, port: int
) -> dict[str, int]:
    """Count the connections by node."""
    found: dict[str, int] = {}
    own = {row["address"] for row in picture["sockets"]}
    for address, count in count_peer_connections(picture, port).items():
        node = find_node_at(plan, address)
        name = node["name"] if node else ("here" if address in own else address)
        found[name] = found.get(name, 0) + count
    return found


def find_absent_ranks(
    plan: PartialParticipants, where: JobEndpoint, there: dict[str, int] | None, me: str
) -> list[JobProblem]:
    """Return the participants that never came to the store or rendezvous on this node.

    None: it is not on this node.
    """
    if there is None:
        return []
    if not list_planned_nodes(plan) or is_partial_job(plan, where):
        return count_absent_ranks(where, there, me)
    found = []
    for node in list_planned_nodes(plan):
        wanted = int(node["local_ranks"]) if where["kind"] == "store" else 1
        count = there.get(node["name"], 0)
        if node["name"] != me and count < wanted:
            problem = build_endpoint_problem(MISSING, where, me)
            problem["service"] = find_service_at(plan, me, where["port"])
            problem.update(
                {"node": node["name"], "address": node["address"], "came": count, "wanted": wanted}
            )
            problem["who"] = describe_absent(node, where, count, wanted)
            problem["key"] = "{} {} {}".format(MISSING, where["port"], node["name"])
            found.append(problem)
    return found


def get_job_size(where: JobEndpoint) -> int:
    """Return the job's own number of ranks, or of nodes at a rendezvous. 0 if it is unknown."""
    store = where["kind"] == "store"
    return max([one["world"] if store else one["nnodes"] for one in where["users"]] or [0])


def is_partial_job(plan: PartialParticipants, where: JobEndpoint) -> bool:
    """Return whether the job does not use the whole plan: it runs on one node, or with fewer ranks on each."""
    size = get_job_size(where)
    whole = [int(node["local_ranks"]) for node in list_planned_nodes(plan)]
    # the plan's number of ranks may still run on fewer nodes: torchrun sets the number of nodes for its ranks
    if any((one["groups"] or len(whole)) != len(whole) for one in where["users"]):
        return True
    planned = sum(whole) if where["kind"] == "store" else len(whole)
    return bool(size) and size != planned


def describe_absent(node: ParticipantNode, where: JobEndpoint, count: int, wanted: int) -> str:
    """Describe missing participants. Ranks are only named if the plan fixes them."""
    if where["kind"] in ("rendezvous", "service"):
        return "{} ({})".format(node["name"], node["address"])
    if count:
        return "{} of {}'s {} ranks".format(wanted - count, node["name"], wanted)
    return "{} ({})".format(format_node_ranks(node), node["name"])


def count_absent_ranks(where: JobEndpoint, there: dict[str, int], me: str) -> list[JobProblem]:
    """Count missing ranks, or nodes at a rendezvous, if no plan names them."""
    store = where["kind"] == "store"
    world = get_job_size(where)
    count = sum(there.values()) if store else len(there)
    if count >= world:
        return []
    problem = build_endpoint_problem(MISSING, where, me)
    problem.update({"node": "", "address": "", "came": count, "wanted": world})
    seen = ", ".join(sorted(there)) or "nobody"
    problem["who"] = "at least {} of {} {} (connected: {})".format(
        world - count, world, "ranks" if store else "nodes", seen
    )
    problem["key"] = "{} {}".format(MISSING, where["port"])
    return [problem]


def build_problem(code: str, host: str, port: int, kind: Kind, me: str) -> JobProblem:
    """Start a problem at an endpoint."""
    return {
        "code": code,
        "key": "",
        "at": me,
        "host": host,
        "port": port,
        "kind": kind,
        "who": "",
        "node": "",
        "address": "",
        "peer": "",
        "service": "",
        "rank": None,
        "inode": "",
        "came": 0,
        "wanted": 0,
        "verdict": "",
        "zone": "",
        "why": "",
        "next": "",
        "sentence": "",
    }


def build_endpoint_problem(code: str, where: JobEndpoint, me: str) -> JobProblem:
    """Start a problem for an endpoint that processes of this node or its peers have to reach."""
    return build_problem(code, where["host"], where["port"], where["kind"], me)


def has_reached_endpoint(
    picture: JobSnapshot, pids: set[int], addresses: list[str], port: int
) -> bool:
    """Return whether one of these processes has a connection to an endpoint, or is the endpoint."""
    for row in picture["sockets"]:
        if row["pid"] not in pids:
            continue
        if row["state"] == sockets.LISTEN and row["port"] == port:
            return True
        at_port = row["state"] == sockets.ESTABLISHED and row["peer_port"] == port
        if at_port and row["peer"] in addresses:
            return True
    return False


def describe_local_process(
    plan: PartialParticipants, where: JobEndpoint, one: WatchedProcess, me: str
) -> str:
    """Describe a process of this node: a rank, one of JAX, an agent with fixed ranks, or just the agent."""
    if one["rank"] is not None:
        return "rank {}".format(one["rank"])
    if where["kind"] == "service":
        return "process {} of JAX".format(one["told"]["JAX_PROCESS_ID"])
    node = next((n for n in list_planned_nodes(plan) if n["name"] == me), None)
    return format_node_ranks(node) if node and where["kind"] == "static" else "torchrun"


def find_unreached_endpoints(
    plan: PartialParticipants,
    picture: JobSnapshot,
    where: JobEndpoint,
    me: str,
    resolve: Resolve,
) -> list[JobProblem]:
    """Return problems of this node's ranks that have not reached their endpoint.

    All processes with a rank's number count for it, including shells around it and its data loaders. One of them has
    the connection.
    """
    addresses = resolve(where["host"]) or []
    found = []
    for one in {user["rank"]: user for user in reversed(where["users"])}.values():
        pids = {user["pid"] for user in where["users"] if user["rank"] == one["rank"]}
        if has_reached_endpoint(picture, pids, addresses, where["port"]):
            continue
        problem = build_endpoint_problem(UNREACHED, where, me)
        who = describe_local_process(plan, where, one, me)
        problem.update({"who": f"{who} ({me}, this node)", "node": me, "rank": one["rank"]})
        problem["key"] = "{} {} {}".format(
            UNREACHED, who, sockets.format_endpoint(where["host"], where["port"])
        )
        found.append(problem)
    return found


def find_blocked_connections(
    plan: PartialParticipants, picture: JobSnapshot, me: str, known: set[tuple[str, int]]
) -> list[JobProblem]:
    """Return problems of data and service connections without an answer, for which the kernel still sends SYNs."""
    by_pid = {one["pid"]: one for one in picture["processes"]}
    found = []
    for row in picture["sockets"]:
        if row["state"] != sockets.SYN_SENT or (row["peer"], row["peer_port"]) in known:
            continue
        if list_planned_nodes(plan) and not find_node_at(plan, row["peer"]):
            continue  # a data server or a tracker does not separate the ranks
        holder = by_pid.get(row["pid"])
        rank = holder["rank"] if holder else None
        who = "a process" if rank is None else f"rank {rank}"
        there = find_node_name(plan, row["peer"])
        served = find_service_at(plan, there, row["peer_port"])
        code = SHUT if served else BLOCKED
        kind: Kind = "service" if served else "data"
        problem = build_problem(code, row["peer"], row["peer_port"], kind, me)
        problem.update({"who": f"{who} ({me}, this node)", "node": me, "rank": rank, "peer": there})
        # a retry takes another local port, and another rank's listener another remote one: it stays one problem
        problem["key"] = "{} {} {}".format(code, who, row["peer"])
        problem["service"] = served
        problem["why"] = WHY["dropped"] + (
            "" if served else describe_data_range(plan, row["peer_port"])
        )
        problem["next"] = "On {}: {}".format(there or row["peer"], FIREWALL)
        found.append(problem)
    return list({problem["key"]: problem for problem in found}.values())


def describe_data_range(plan: PartialParticipants, port: int) -> str:
    """Describe whether a data port is in the range that the firewalls open."""
    span = plan.get("data_ports")
    if not span:
        return ""
    inside = int(span["first"]) <= port <= int(span["last"])
    text = ", port {} is {} the data range {}-{}"
    return text.format(port, "in" if inside else "OUTSIDE", span["first"], span["last"])


def has_peer_connection(
    plan: PartialParticipants,
    picture: JobSnapshot,
    me: str,
    hosted_ports: set[int],
    known: set[tuple[str, int]],
) -> bool:
    """Return whether the ranks exchange data.

    They do if the job has a connection to another node that does not lead to a store.
    """
    for row in picture["sockets"]:
        there = find_node_name(plan, row["peer"])
        if row["state"] != sockets.ESTABLISHED or there in ("", me):
            continue
        if row["port"] not in hosted_ports and (row["peer"], row["peer_port"]) not in known:
            return True
    return False


def find_departed_nodes(
    plan: PartialParticipants,
    picture: JobSnapshot,
    where: JobEndpoint,
    me: str,
    once: dict[str, int] | None,
) -> list[JobProblem]:
    """Return nodes that were connected and have left, while this node's ranks still wait."""
    if once is None or where["kind"] != "store":
        return []
    there = count_node_connections(plan, picture, where["port"])
    found = []
    for name, most in once.items():
        if name in (me, "here") or there.get(name) or not most:
            continue
        node = next((n for n in list_planned_nodes(plan) if n["name"] == name), None)
        problem = build_endpoint_problem(GONE, where, me)
        label = f"{format_node_ranks(node)} ({name})" if node else "what came from " + name
        problem.update({"who": label, "node": name, "address": node["address"] if node else name})
        problem["key"] = "{} {} {}".format(GONE, where["port"], name)
        problem["why"] = "it had connected and its connection is closed: the process there ended"
        problem["next"] = "./fullmesh explain-log on its log names the cause"
        found.append(problem)
    return found


def explain_unreached(
    problem: JobProblem, plan: PartialParticipants, verdict: str, own: bool
) -> None:
    """Add the cause and the next step to the problem of a process that cannot connect."""
    master = plan.get("master")
    there = find_node_name(plan, problem["host"])
    problem["verdict"] = verdict
    problem["peer"] = there
    problem["service"] = find_service_at(plan, there, problem["port"])
    problem["why"] = WHY.get(verdict, verdict)
    if own and verdict in ("refused", "open"):
        problem["why"] = (
            "this node itself has to open it, and no process of the job has done so yet"
        )
    problem["next"] = {
        "dropped": "On {}: {}".format(there or problem["host"], FIREWALL),
        "rejected": "On {}: {}".format(there or problem["host"], FIREWALL),
        "refused": "Is the job started on {}?".format(there or problem["host"]),
    }.get(verdict, "ip route get {}; getent ahosts {}".format(problem["host"], problem["host"]))
    if master and not there and verdict != "open":
        problem["why"] += ", and the plan's master is {} ({})".format(
            master["address"], master["node"]
        )
        problem["next"] = START[problem["kind"] == "service"].format(master["address"])


def explain_missing(problem: JobProblem, verdict: str, zone: str, me: str) -> None:
    """Add the cause and the next step to a problem of a missing participant."""
    name = problem["node"] or "the other nodes"
    problem["verdict"], problem["zone"] = verdict, zone
    if verdict == "no_route":
        problem["why"] = "{} is not on the network: no host answers ARP for it".format(
            problem["address"]
        )
        problem["next"] = f"On {name}: ip address; ip link"
    elif zone:
        problem["why"] = "zone {} on {} does not open {}/tcp".format(zone, me, problem["port"])
        problem["next"] = (
            "./fullmesh apply -i INVENTORY -- --tags firewall -e fullmesh_converge=always"
        )
    else:
        problem["why"] = "no firewalld zone of this node blocks it"
        problem["next"] = (
            f"On {name}: check that the job is started there, and read the output of its watch"
        )


def describe_problem(problem: JobProblem) -> str:
    """Format a problem as one line."""
    verb = {
        MISSING: "has not reached {place} here",
        UNREACHED: "has not reached {place}",
        BLOCKED: "gets no answer from {place}",
        GONE: "has left {place}",
        SHUT: "gets no answer from {place}",
        TAKEN: "listens on {place} here",
        LOOPBACK: "listens on {place} alone",
    }[problem["code"]]
    target = sockets.format_endpoint(problem["host"], problem["port"])
    named = [one for one in (problem["peer"], problem["service"]) if one]
    if named:
        target += " ({})".format(", ".join(named))
    text = "[{}] {} {}: {}.".format(
        problem["code"], problem["who"], verb.format(place=target), problem["why"]
    )
    return text + (" {}".format(problem["next"]) if problem["next"] else "")
