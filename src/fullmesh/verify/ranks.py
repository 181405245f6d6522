"""Rungs L3 to L5, L7 and L8: what the ranks of a real job reported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fullmesh.contract import steps_of
from fullmesh.observed.ranks import Ended, RankSaid
from fullmesh.result.types import Collectives, RankRow
from fullmesh.verify.model import Finding, Seen, in_words
from fullmesh.verify.rank_ends import (
    STEPS,
    Cause,
    RankEnd,
    causes,
    ends,
    first_by,
    kind_of,
    ranks_of,
    says_why,
)

# A wrong value in a step of rung L8: what the step, or the check within it, stands for.
TRAINING = {"amp": "VC-805", "subgroups": "VC-806", "fsdp": "VC-807"}
CHECKS = {
    "start": "VC-801",
    "sampler": "VC-802",
    "ranks": "VC-803",
    "reference": "VC-804",
    "gpus": "VC-711",
    "values": "VC-713",
}
# What a step stands for that failed or hung; a collective (VC-403) or a training step (VC-808) otherwise.
STORES = ("store", "rendezvous")
# What an error of the step "import" stands for, by its text; VC-302 otherwise.
IMPORT_ERRORS = (
    ("VC-310", re.compile(r"PermissionError|this account may not read")),
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
# Above this many runnable tasks a processor, a rank waits for its turn longer than it works.
OVERLOADED = 2.0
# Share of the time from which a deadline is a matter of it; below, clouds take their per cents all the time.
KEPT_OFF = 0.2
REMOTE = re.compile(r"remote=\[([0-9A-Fa-f.:]+)\]:(\d{1,5})")


def patience(seen: Seen) -> float:
    """How many times longer than alone a rank may need: tasks that want to run, for each processor, at least 1.

    Counted on the machine that is worst off: what ran when it was looked at, and the ranks that will. Nodes of one boot
    are containers of one machine: they share its processors, and each sees the load of the whole.
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


def figures(name: str, ended: Ended) -> str:
    """How busy a node was while its ranks ran."""
    cpus = int(ended.get("cpus") or 1)
    words = [f"load {float(ended.get('load') or 0.0):.1f} on {cpus} processor{'s' * (cpus > 1)}"]
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


def overloaded(seen: Seen) -> str:
    """The nodes whose processors were kept from their ranks, in words; empty where none was."""
    found = []
    for name, node in seen.nodes.items():
        ended = node.get("gloo", {}).get("ended", {})
        kept_off = max(ended.get("steal", 0.0), ended.get("throttled", 0.0)) >= KEPT_OFF
        load, cpus = float(ended.get("load") or 0.0), int(ended.get("cpus") or 1)
        if kept_off or load > OVERLOADED * cpus:
            found.append(figures(name, ended))
    return in_words(found)


def code_of(end: RankEnd) -> str:
    """The code for an end."""
    if end.state == "wrong":
        return code_of_wrong_value(end)
    early = end.code or code_of_early_end(end)
    if early:
        return early
    # NCCL's watchdog ends the process when a collective times out: that is how a hang looks there.
    if STEPS[end.step] == "L7":
        return "VC-715" if end.step == "nccl_tests" else "VC-712"
    if end.state == "died":
        return "VC-303"
    return UNFINISHED.get(end.step) or ("VC-808" if STEPS[end.step] == "L8" else "VC-403")


def code_of_wrong_value(end: RankEnd) -> str:
    """The code for a value that is not the exact result."""
    step = end.step.removeprefix("gpu_")
    return "VC-308" if end.step in STORES else TRAINING.get(step) or CHECKS.get(end.check, "VC-402")


def code_of_early_end(end: RankEnd) -> str:
    """The code for a rank that failed by itself before it met the others; "" for another one."""
    if end.state == "absent":
        return code_of_import(end.text, "VC-304")
    if end.state != "failed" or not says_why(end):
        return ""
    return {"import": code_of_import(end.text, "VC-302"), "gpus": "VC-724"}.get(end.step, "")


def code_of_import(text: str, otherwise: str) -> str:
    """The code for an error that ended a rank before it had torch."""
    return next((code for code, pattern in IMPORT_ERRORS if pattern.search(text)), otherwise)


def sentence(seen: Seen, end: RankEnd, ranks: str) -> str:
    """The cause in words."""
    master = seen.plan["master"]
    if end.step in STORES:
        port = port_of(seen, end)
        return f"{ranks} could not use the store on {master['node']} ({master['address']}:{port}): {end.text}"
    return {
        "wrong": f"{found_by(end, ranks)}: {end.text}",
        "hung": f"{ranks} hung in {end.step} {how_long(end)}",
        "died": f"{ranks} ended in the middle of {end.step}: {end.text}",
        "absent": f"{ranks} did not start: {end.text}",
        "lost": f"the connection to {end.node} was lost while {ranks} ran: {end.text}",
        "stopped": f"{ranks} were ended in {end.step}, and no rank says why",
    }.get(end.state, f"{ranks} failed in {end.step}: {end.text}{remote_of(seen, end.text)}")


def how_long(end: RankEnd) -> str:
    """How long a rank hung, in words."""
    if end.text.startswith("no end"):
        return "until the deadline"
    return f"for {end.spent:.0f} s, longer than the others waited for it"


def found_by(end: RankEnd, ranks: str) -> str:
    """Whom a wrong value is laid to: who found it, unless it is known whose it is."""
    if not end.check:
        return f"{ranks} got a wrong value"
    return f"training on {ranks} ({end.step})" if STEPS[end.step] == "L8" else f"{ranks}"


def blamed(seen: Seen, group: Sequence[RankEnd]) -> list[tuple[int, str]]:
    """The ranks at fault with their nodes: those that were named, else those that found it."""
    named = {rank for end in group for rank in end.ranks}
    where = {rank: name for name, node in seen.plan["nodes"].items() for rank in node["ranks"]}
    return [(r, where[r]) for r in sorted(named) if r in where] or [(e.rank, e.node) for e in group]


def remote_of(seen: Seen, text: str) -> str:
    """Say which address and port Gloo means: it prints the port in network byte order (faults.md 0.7)."""
    found = REMOTE.search(text)
    if not found:
        return ""
    address, printed = found[1], int(found[2])
    port = (printed & 0xFF) << 8 | printed >> 8
    odd = "" if address in seen.plan["peers"] else ", which is no cluster address"
    return f" (that is {address} port {port}{odd})"


def port_of(seen: Seen, end: RankEnd) -> int:
    """Where the store of a step is served."""
    return seen.plan["master"]["port"] if end.step == "store" else seen.plan["rendezvous"]["port"]


def fix_of_early_end(seen: Seen, end: RankEnd, node: str) -> str:
    """The next step for a rank that did not meet the others; "" for another one."""
    own = {
        "VC-309": f"on {node}: journalctl -u ssh -u sshd; then verify again",
        "VC-310": f"on {node}: namei -l PATH shows the folder or file that is closed; chmod o+rX opens it",
        "VC-312": f"on {node}: correct the line, or {seen.apply('launch')}",
    }
    early = end.step == "import" or end.state == "absent"
    return (
        (f"on {node}: {end.fix}" if end.fix else "")
        or own.get(code_of(end), "")
        or (seen.apply("packages") if early else "")
    )


def fix_of(seen: Seen, end: RankEnd, node: str) -> str:
    """The next step for where a rank stopped."""
    early = fix_of_early_end(seen, end, node)
    if early:
        return early
    if end.state == "wrong" and end.step in STORES:
        return (
            f"on every node, while it runs: ss -tnp 'dport = :{port_of(seen, end)}' names who writes there beside the "
            "ranks; torch's store asks nobody for a password, so end that program"
        )
    if end.check == "gpus":
        return f"on {node}: nvidia-smi -L; set fullmesh_local_ranks to its number of GPUs; {seen.apply('packages')}"
    if end.step.startswith(("gpu", "nccl")):
        return (
            f"on {node}: nvidia-smi; dmesg | grep -i -E 'xid|NVRM'; run again with NCCL_DEBUG=INFO"
        )
    if STEPS[end.step] == "L8" and end.state == "wrong":
        return (
            f"on {node}: compare torch and its settings with the other nodes' ({seen.apply('packages')}); "
            f"a wrong number that comes and goes is the machine's: test its memory"
        )
    return f"on {node}: see ranks in the result; run again with TORCH_DISTRIBUTED_DEBUG=DETAIL"


def at_deadline(end: RankEnd) -> bool:
    """A deadline of the check's own ended this rank. For ``init`` it is Gloo's word about a connection."""
    return end.step != "init" and (end.state == "hung" or kind_of(end) == "timeout")


def rule_climb(seen: Seen) -> Iterator[Finding]:
    """Every rank gets to the top."""
    for cause in causes(ends(seen)):
        end = cause.ranks[0]
        guilty = blamed(seen, sorted(cause.ranks, key=lambda one: one.rank))
        nodes = list(dict.fromkeys(name for _, name in guilty))
        who = f"{'rank' if len(guilty) == 1 else 'ranks'} {in_words([str(r) for r, _ in guilty])}"
        where = f"{who} on {in_words(nodes)}"
        if end.node in nodes:  # where to look first
            nodes = [end.node, *(name for name in nodes if name != end.node)]
        busy = overloaded(seen) if at_deadline(end) else ""
        said = out_of_time(seen, end, where, busy) if busy else sentence(seen, end, where)
        yield Finding(
            "VC-306" if busy else code_of(end),
            STEPS[end.step],
            said + order_of(cause),
            node=nodes[0],
            peer=seen.plan["master"]["node"] if STEPS[end.step] == "L3" else in_words(nodes[1:]),
            seen=busy or end.seen or end.state,
            expected=end.expected or "ok",
            fix=more_time(seen) if busy else fix_of(seen, end, nodes[0]),
        )


def order_of(cause: Cause) -> str:
    """Who ended first and who followed, in words; empty where nobody did."""
    first = cause.ranks[0]
    gap = first_by([first, *cause.ranks[1:]])
    said = ""
    if gap:
        said = f"; rank {first.rank} on {first.node} was the first of them, {gap:.2f} s before the next"
    if not cause.followed:
        return said
    gap = first_by([first, *cause.followed])
    count = len(cause.followed)
    said += f"; {count} other rank{'s' * (count > 1)} ended after that" + (
        f",{' the first of them' * (count > 1)} {gap:.2f} s later" if gap else ""
    )
    own = next((one for one in cause.followed if one.state == "failed" and says_why(one)), None)
    return said + (f"; rank {own.rank} on {own.node} with {own.text}" if own else "")


def out_of_time(seen: Seen, end: RankEnd, where: str, busy: str) -> str:
    """The cause in words, where the processors had more to do than the deadline allowed for."""
    before = "every link was open just before" if "L2" in seen.rungs else "the links were not tried"
    return (
        f"not finished, the machine is busy: {where} did not get through {end.step} in the time that this check allows"
        f" ({end.text}), "
        f"with {busy}: a deadline of the check's own, no word about the network ({before})"
    )


def more_time(seen: Seen) -> str:
    """The command that gives the ranks twice the time."""
    deadline, init = round(2 * seen.deadline), round(2 * seen.init_timeout)
    return (
        f"./fullmesh verify -i {seen.inventory} -- -e verify_cluster_deadline={deadline} "
        f"-e verify_cluster_init_timeout={init}, or again when less runs there"
    )


def listeners_of(told: RankSaid) -> list[tuple[str, int]]:
    """Where a rank really listened: (address, port)."""
    said = steps_of(told).get("sockets")
    return [(address, port) for address, port in said["listeners"]] if said else []


def rule_listeners(seen: Seen) -> Iterator[Finding]:
    """Every port on which a rank really listened lies in the range and on the cluster address."""
    data = seen.plan["data_ports"]
    named = (seen.plan["master"]["port"], seen.plan["rendezvous"]["port"])
    for name, rank, told, _ in ranks_of(seen):
        own = seen.address(name)
        free = [(a, p) for a, p in listeners_of(told) if p not in named]
        out = [f"{a}:{p}" for a, p in free if not data["first"] <= p <= data["last"]]
        if out:
            yield Finding(
                "VC-501",
                "L5",
                f"rank {rank} on {name} listened outside the data range",
                node=name,
                port=in_words(out),
                seen=in_words(out),
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
                seen=in_words(wrong),
                expected=own,
                fix=f"on {name}: ip -o addr show; one address per cluster interface, or GLOO_SOCKET_IFNAME set",
            )


def collectives(seen: Seen) -> Collectives:
    """Times and rates over all ranks: the slowest counts."""
    slowest: dict[str, float] = {}
    unsupported: set[str] = set()
    latency, bandwidth, mib = 0.0, 0.0, 0
    for _, _, told, _ in ranks_of(seen):
        for event in told["events"]:
            if event["state"] == "unsupported":
                unsupported.add(event["step"])
            if event["state"] == "ok" and event["step"] in STEPS:
                slowest[event["step"]] = max(
                    slowest.get(event["step"], 0.0), event.get("seconds", 0.0)
                )
        said = steps_of(told)
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


def seconds_of(found: Collectives, rung: str) -> float:
    """How long the slowest rank took for the steps of a rung."""
    spent = found.get("seconds", {})
    return float(sum(value for step, value in spent.items() if STEPS[step] == rung))


def rank_table(seen: Seen) -> list[RankRow]:
    """Every rank in one line, with its last words when it did not get through."""
    return [
        {
            "rank": rank,
            "node": name,
            "step": end.step or "done",
            "state": end.state,
            "text": end.text,
            "listeners": [f"{a}:{p}" for a, p in listeners_of(told)],
            "log": "" if end.state == "ok" else told["log"],
        }
        for (name, rank, told, _), end in zip(ranks_of(seen), ends(seen), strict=True)
    ]


RULES = (rule_climb, rule_listeners)


def findings(seen: Seen) -> list[Finding]:
    """All findings of these rungs."""
    return [finding for rule in RULES for finding in rule(seen)]
