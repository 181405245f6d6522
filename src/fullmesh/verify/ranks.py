"""Evaluate checks L3 to L5, L7 and L8: the reports of a real job's ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fullmesh.contract import convert_rank_steps
from fullmesh.observed.ranks import RankReport, RanksEnd
from fullmesh.result.findings import Finding, join_names
from fullmesh.result.types import Collectives, RankRow
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.rank_ends import (
    STEPS,
    JobStopCause,
    RankEnd,
    classify_rank_end,
    compute_lead_time,
    find_job_causes,
    find_rank_ends,
    has_own_error,
    iterate_ranks,
)

# Codes for a wrong value in a step of check L8, by the step or the check in it.
TRAINING = {"amp": "VC-805", "subgroups": "VC-806", "fsdp": "VC-807"}
CHECKS = {
    "start": "VC-801",
    "sampler": "VC-802",
    "ranks": "VC-803",
    "reference": "VC-804",
    "gpus": "VC-711",
    "values": "VC-713",
}
# Codes for a step that failed or hung. Otherwise a collective (VC-403) or a training step (VC-808).
STORES = ("store", "rendezvous")
# Codes for an error of the step "import", by its text. Otherwise VC-302.
IMPORT_ERRORS = (
    ("VC-310", re.compile(r"PermissionError|this account cannot read")),
    (
        "VC-311",
        re.compile(
            r"cannot open shared object|undefined symbol|invalid ELF|file too short|version `[^']{1,80}' not found"
        ),
    ),
    ("VC-312", re.compile(r"EnvironmentFileError")),
)
UNFINISHED = {"import": "VC-302", "store": "VC-301", "rendezvous": "VC-301", "init": "VC-401"}
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 (compared with, not bound)
# With more runnable tasks per CPU than this, a rank waits longer than it works.
OVERLOADED = 2.0
# From this share of stolen time on, it explains a missed deadline. Clouds always take a few percent.
KEPT_OFF = 0.2
REMOTE = re.compile(r"remote=\[([0-9A-Fa-f.:]+)\]:(\d{1,5})")


def compute_time_factor(seen: ClusterObservations) -> float:
    """Return how much longer a rank may take than alone: runnable tasks per CPU, at least 1.

    The busiest machine counts: its load in the survey plus its ranks. Nodes with the same boot id are containers of
    one machine. They share its CPUs, and each reports the load of the whole machine.
    """
    machines: dict[str, list[str]] = {}
    for name in seen.plan["nodes"]:
        machines.setdefault(str(seen.facts(name).get("boot") or name), []).append(name)
    most = 1.0
    for names in machines.values():
        cpus = max(int(seen.facts(name).get("cpus") or 0) for name in names)
        load = max(float(seen.facts(name).get("load") or 0.0) for name in names)
        ranks = sum(len(seen.plan["nodes"][name]["ranks"]) for name in names)
        most = max(most, (load + ranks) / cpus if cpus else 1.0)
    return round(most, 2)


def describe_node_load(name: str, ended: RanksEnd) -> str:
    """Describe the load of a node while its ranks ran."""
    cpus = int(ended.get("cpus") or 1)
    words = [f"load {float(ended.get('load') or 0.0):.1f} on {cpus} CPU{'s' * (cpus > 1)}"]
    words += [
        f"{100 * share:.0f} % {what}"
        for share, what in (
            (ended.get("steal", 0.0), "of their time stolen by the machine's owner (steal)"),
            (
                ended.get("throttled", 0.0),
                "of the periods cut short by a cgroup's limit (throttled)",
            ),
        )
        if share >= KEPT_OFF
    ]
    return f"{name}: {', '.join(words)}"


def describe_overload(seen: ClusterObservations) -> str:
    """Describe the nodes whose CPUs were overloaded or limited, or return ""."""
    found = []
    for name, node in seen.nodes.items():
        ended = node.get("gloo", {}).get("ended", {})
        kept_off = max(ended.get("steal", 0.0), ended.get("throttled", 0.0)) >= KEPT_OFF
        load, cpus = float(ended.get("load") or 0.0), int(ended.get("cpus") or 1)
        if kept_off or load > OVERLOADED * cpus:
            found.append(describe_node_load(name, ended))
    return join_names(found)


def find_end_code(end: RankEnd) -> str:
    """Return the code for an end."""
    if end.state == "wrong":
        return find_wrong_value_code(end)
    early = end.code or find_early_end_code(end)
    if early:
        return early
    # NCCL's watchdog ends the process if a collective times out, so a hang looks like that.
    if STEPS[end.step] == "L7":
        return "VC-715" if end.step == "nccl_tests" else "VC-712"
    if end.state == "died":
        return "VC-303"
    return UNFINISHED.get(end.step) or ("VC-808" if STEPS[end.step] == "L8" else "VC-403")


def find_wrong_value_code(end: RankEnd) -> str:
    """Return the code for a value that is not the exact result."""
    step = end.step.removeprefix("gpu_")
    return "VC-308" if end.step in STORES else TRAINING.get(step) or CHECKS.get(end.check, "VC-402")


def find_early_end_code(end: RankEnd) -> str:
    """Return the code for a rank that failed by itself before it met the others, or ""."""
    if end.state == "absent":
        return find_import_code(end.text, "VC-304")
    if end.state != "failed" or not has_own_error(end):
        return ""
    return {"import": find_import_code(end.text, "VC-302"), "gpus": "VC-724"}.get(end.step, "")


def find_import_code(text: str, otherwise: str) -> str:
    """Return the code for an error that ended a rank before it had torch."""
    return next((code for code, pattern in IMPORT_ERRORS if pattern.search(text)), otherwise)


def describe_rank_cause(seen: ClusterObservations, end: RankEnd, ranks: str) -> str:
    """Describe the cause."""
    master = seen.plan["master"]
    if end.step in STORES:
        port = get_store_port(seen, end)
        return f"{ranks} could not use the store on {master['node']} ({master['address']}:{port}): {end.text}"
    return {
        "wrong": f"{describe_wrong_value(end, ranks)}: {end.text}",
        "hung": f"{ranks} hung in {end.step} {describe_hang_time(end)}",
        "died": f"{ranks} ended in the middle of {end.step}: {end.text}",
        "absent": f"{ranks} did not start: {end.text}",
        "lost": f"the connection to {end.node} was lost while {ranks} ran: {end.text}",
        "stopped": f"{ranks} were ended in {end.step}, but no rank reported why",
    }.get(
        end.state, f"{ranks} failed in {end.step}: {end.text}{describe_gloo_remote(seen, end.text)}"
    )


def describe_hang_time(end: RankEnd) -> str:
    """Describe how long a rank hung."""
    if end.text.startswith("no end"):
        return "until the deadline"
    return f"for {end.spent:.0f} s, longer than the others waited for it"


def describe_wrong_value(end: RankEnd, ranks: str) -> str:
    """Describe the ranks with a wrong value: those that found it, unless the source is known."""
    if not end.check:
        return f"{ranks} got a wrong value"
    return f"training on {ranks} ({end.step})" if STEPS[end.step] == "L8" else f"{ranks}"


def list_blamed_ranks(seen: ClusterObservations, group: Sequence[RankEnd]) -> list[tuple[int, str]]:
    """List the ranks at fault with their nodes: named ranks, else those that found it."""
    named = {rank for end in group for rank in end.ranks}
    where = {rank: name for name, node in seen.plan["nodes"].items() for rank in node["ranks"]}
    return [(r, where[r]) for r in sorted(named) if r in where] or [(e.rank, e.node) for e in group]


def describe_gloo_remote(seen: ClusterObservations, text: str) -> str:
    """Describe the address and port in Gloo's message. It prints the port in network byte order (faults.md 0.7)."""
    found = REMOTE.search(text)
    if not found:
        return ""
    address, printed = found[1], int(found[2])
    port = (printed & 0xFF) << 8 | printed >> 8
    odd = "" if address in seen.plan["peers"] else ", which is not a cluster address"
    return f" (that is {address} port {port}{odd})"


def get_store_port(seen: ClusterObservations, end: RankEnd) -> int:
    """Return the port of the store in a step."""
    return seen.plan["master"]["port"] if end.step == "store" else seen.plan["rendezvous"]["port"]


def suggest_early_end_fix(seen: ClusterObservations, end: RankEnd, node: str) -> str:
    """Suggest the next step for a rank that did not meet the others, or return ""."""
    own = {
        "VC-309": f"on {node}: journalctl -u ssh -u sshd. Then verify again",
        "VC-310": f"on {node}: namei -l PATH shows the folder or file without access. chmod o+rX opens it",
        "VC-312": f"on {node}: correct the line, or {seen.apply('launch')}",
    }
    early = end.step == "import" or end.state == "absent"
    return (
        (f"on {node}: {end.fix}" if end.fix else "")
        or own.get(find_end_code(end), "")
        or (seen.apply("packages") if early else "")
    )


def suggest_rank_fix(seen: ClusterObservations, end: RankEnd, node: str) -> str:
    """Suggest the next step for a rank that stopped."""
    early = suggest_early_end_fix(seen, end, node)
    if early:
        return early
    if end.state == "wrong" and end.step in STORES:
        return (
            f"on every node, while it runs: ss -tnp 'dport = :{get_store_port(seen, end)}' names programs other than "
            "the "
            "ranks that write to it. End that program, because torch's store has no password"
        )
    if end.check == "gpus":
        return f"on {node}: nvidia-smi -L. Set fullmesh_local_ranks to its GPU count. Then {seen.apply('packages')}"
    if end.step.startswith(("gpu", "nccl")):
        return f"on {node}: nvidia-smi && dmesg | grep -i -E 'xid|NVRM'. Run again with NCCL_DEBUG=INFO"
    if STEPS[end.step] == "L8" and end.state == "wrong":
        return (
            f"on {node}: compare torch and its settings with the other nodes ({seen.apply('packages')}). "
            f"If the wrong number comes and goes, test the machine's memory"
        )
    return f"on {node}: see the ranks in the result. Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL"


def is_deadline_end(end: RankEnd) -> bool:
    """Return whether a deadline of the check ended this rank. For ``init``, Gloo reports it for a connection."""
    return end.step != "init" and (end.state == "hung" or classify_rank_end(end) == "timeout")


def rule_ranks_finish(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that every rank completes."""
    for cause in find_job_causes(find_rank_ends(seen)):
        end = cause.ranks[0]
        guilty = list_blamed_ranks(seen, sorted(cause.ranks, key=lambda one: one.rank))
        nodes = list(dict.fromkeys(name for _, name in guilty))
        who = f"{'rank' if len(guilty) == 1 else 'ranks'} {join_names([str(r) for r, _ in guilty])}"
        where = f"{who} on {join_names(nodes)}"
        if end.node in nodes:  # check this node first
            nodes = [end.node, *(name for name in nodes if name != end.node)]
        busy = describe_overload(seen) if is_deadline_end(end) else ""
        said = (
            describe_busy_timeout(seen, end, where, busy)
            if busy
            else describe_rank_cause(seen, end, where)
        )
        yield Finding(
            "VC-306" if busy else find_end_code(end),
            STEPS[end.step],
            said + describe_end_order(cause),
            node=nodes[0],
            peer=seen.plan["master"]["node"] if STEPS[end.step] == "L3" else join_names(nodes[1:]),
            seen=busy or end.seen or end.state,
            expected=end.expected or "ok",
            fix=suggest_more_time(seen) if busy else suggest_rank_fix(seen, end, nodes[0]),
        )


def describe_end_order(cause: JobStopCause) -> str:
    """Describe which rank ended first and which followed, or return ""."""
    first = cause.ranks[0]
    gap = compute_lead_time([first, *cause.ranks[1:]])
    said = ""
    if gap:
        said = f". Rank {first.rank} on {first.node} was the first of them, {gap:.2f} s before the next"
    if not cause.followed:
        return said
    gap = compute_lead_time([first, *cause.followed])
    count = len(cause.followed)
    said += f". {count} other rank{'s' * (count > 1)} ended after that" + (
        f",{' the first of them' * (count > 1)} {gap:.2f} s later" if gap else ""
    )
    own = next(
        (one for one in cause.followed if one.state == "failed" and has_own_error(one)), None
    )
    return said + (f"; rank {own.rank} on {own.node} with {own.text}" if own else "")


def describe_busy_timeout(seen: ClusterObservations, end: RankEnd, where: str, busy: str) -> str:
    """Describe the cause if the CPUs were too busy for the deadline."""
    before = (
        "every link was open just before" if "L2" in seen.checks else "the links were not tested"
    )
    return (
        f"not finished, the machine is busy: {where} did not complete {end.step} in the time that this check allows"
        f" ({end.text}), "
        f"with {busy}. This is the check's own deadline and says nothing about the network ({before})"
    )


def suggest_more_time(seen: ClusterObservations) -> str:
    """Return the command that gives the ranks twice the time."""
    deadline, init = round(2 * seen.deadline), round(2 * seen.init_timeout)
    return (
        f"./fullmesh verify -i {seen.inventory} -- -e verify_cluster_deadline_seconds={deadline} "
        f"-e verify_cluster_init_timeout_seconds={init}, or again when the machine is less busy"
    )


def list_rank_listeners(report: RankReport) -> list[tuple[str, int]]:
    """List the (address, port) on which a rank listened."""
    said = convert_rank_steps(report).get("sockets")
    return [(address, port) for address, port in said["listeners"]] if said else []


def rule_rank_listeners(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that every port on which a rank listened is in the range and on the cluster address."""
    data = seen.plan["data_ports"]
    named = (seen.plan["master"]["port"], seen.plan["rendezvous"]["port"])
    for name, rank, report, _ in iterate_ranks(seen):
        own = seen.address(name)
        free = [(a, p) for a, p in list_rank_listeners(report) if p not in named]
        out = [f"{a}:{p}" for a, p in free if not data["first"] <= p <= data["last"]]
        if out:
            yield Finding(
                "VC-501",
                "L5",
                f"rank {rank} on {name} listened outside the data range",
                node=name,
                port=join_names(out),
                seen=join_names(out),
                expected=str(data["firewalld"]),
                fix=seen.apply("tuning"),
            )
        wrong = sorted({a for a, _ in free if a != own and a not in WILDCARDS})
        if wrong:
            yield Finding(
                "VC-502",
                "L5",
                f"Gloo of rank {rank} on {name} listened on an address that is not the cluster's",
                node=name,
                seen=join_names(wrong),
                expected=own,
                check=f"on {name}: ip address",
                fix=f"on {name}: use one address per cluster interface, or set GLOO_SOCKET_IFNAME",
            )


def summarize_collectives(seen: ClusterObservations) -> Collectives:
    """Summarize times and rates over all ranks. The slowest rank counts."""
    slowest: dict[str, float] = {}
    unsupported: set[str] = set()
    latency, bandwidth, mib = 0.0, 0.0, 0
    for _, _, report, _ in iterate_ranks(seen):
        for event in report["events"]:
            if event["state"] == "unsupported":
                unsupported.add(event["step"])
            if event["state"] == "ok" and event["step"] in STEPS:
                slowest[event["step"]] = max(
                    slowest.get(event["step"], 0.0), event.get("seconds", 0.0)
                )
        said = convert_rank_steps(report)
        if smallest := said.get("latency"):
            latency = max(latency, smallest["latency_us"])
        if rate := said.get("bandwidth"):
            mib = rate["mib"]
            bandwidth = min(bandwidth or rate["bus_gbit_s"], rate["bus_gbit_s"])
    if not slowest:
        return {}
    return {
        "world_size": seen.plan["world_size"],
        "seconds": slowest,
        "unsupported": sorted(unsupported),
        "latency_us": latency,
        "bandwidth_mib": mib,
        "bus_gbit_s": bandwidth,
    }


def sum_check_seconds(found: Collectives, check: str) -> float:
    """Return how long the slowest rank took for the steps of a check."""
    spent = found.get("seconds", {})
    return float(sum(value for step, value in spent.items() if STEPS[step] == check))


def build_rank_rows(seen: ClusterObservations) -> list[RankRow]:
    """Build one row for every rank, with the end of its log if it did not complete."""
    return [
        {
            "rank": rank,
            "node": name,
            "step": end.step or "done",
            "state": end.state,
            "text": end.text,
            "listeners": [f"{a}:{p}" for a, p in list_rank_listeners(report)],
            "log": "" if end.state == "ok" else report["log"],
        }
        for (name, rank, report, _), end in zip(
            iterate_ranks(seen), find_rank_ends(seen), strict=True
        )
    ]


RULES = (rule_ranks_finish, rule_rank_listeners)


def check_ranks(seen: ClusterObservations) -> list[Finding]:
    """Return all findings of these checks."""
    return [finding for rule in RULES for finding in rule(seen)]
