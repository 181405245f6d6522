"""Rungs L3 to L5, L7 and L8: what the ranks of a real job reported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullmesh.contract import steps_of
from fullmesh.observed.ranks import Ended, RankSaid
from fullmesh.result.types import Collectives, RankRow, RungId
from fullmesh.verify.model import Finding, Seen, in_words

STEPS: dict[str, RungId] = {
    "import": "L3",
    "store": "L3",
    "rendezvous": "L3",
    "init": "L4",
    "all_reduce": "L4",
    "broadcast": "L4",
    "all_gather": "L4",
    "reduce_scatter": "L4",
    "all_to_all": "L4",
    "barrier": "L4",
    "groups": "L4",
    "latency": "L5",
    "bandwidth": "L5",
    "sockets": "L5",
    "gpus": "L7",
    "nccl": "L7",
    "nccl_sizes": "L7",
    "nccl_tests": "L7",
    "ddp": "L8",
    "amp": "L8",
    "subgroups": "L8",
    "fsdp": "L8",
    "gpu_ddp": "L8",
    "gpu_amp": "L8",
    "gpu_subgroups": "L8",
    "gpu_fsdp": "L8",
}
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
UNFINISHED = {"import": "VC-302", "store": "VC-301", "rendezvous": "VC-301", "init": "VC-401"}
WORTH = ("absent", "wrong", "died", "failed", "hung")  # how much an end says, most first
GOOD = ("ok", "unsupported")
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 (compared with, not bound)
FIRST_LINE = 300
# Above this many runnable tasks a processor, a rank waits for its turn longer than it works.
OVERLOADED = 2.0
# What a rank says whose partner is gone; why that one went, the partner says.
LOST = re.compile(
    r"closed by peer|connection reset|broken pipe|socket closed|software caused connection abort",
    re.I,
)
TIMED_OUT = re.compile(r"timed out|timeout", re.I)
REMOTE = re.compile(r"remote=\[([0-9A-Fa-f.:]+)\]:(\d{1,5})")


@dataclass(frozen=True)
class RankEnd:
    """Where a rank's climb ended."""

    rank: int
    node: str
    step: str  # "" when it got through
    state: str  # wrong, failed, died, hung, absent
    text: str
    seen: str = ""
    expected: str = ""
    check: str = ""  # what was found wrong, for the steps of L7 and L8
    ranks: tuple[int, ...] = ()  # at fault, when it is not the rank that found it


def steps_for(rungs: Sequence[str]) -> list[str]:
    """The steps that the asked rungs need; a rung needs the ones below it."""
    highest = max((rung for rung in rungs if rung in STEPS.values()), default="")
    return [step for step, rung in STEPS.items() if rung <= highest]


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


def overloaded(seen: Seen) -> str:
    """The nodes whose processors were busy when their ranks had ended, in words; empty where none was."""
    found = []
    for name, node in seen.nodes.items():
        ended = node.get("gloo", {}).get("ended", {})
        load, cpus = float(ended.get("load") or 0.0), int(ended.get("cpus") or 1)
        if load > OVERLOADED * cpus:
            found.append(f"{name}: load {load:.1f} on {cpus} processor{'s' * (cpus > 1)}")
    return in_words(found)


def ranks_of(seen: Seen) -> Iterator[tuple[str, int, RankSaid, Ended]]:
    """Every rank of the plan with what is known of it."""
    silent: RankSaid = {"events": [], "log": ""}
    for name, node in seen.plan["nodes"].items():
        gloo = seen.nodes.get(name, {}).get("gloo")
        for rank in node["ranks"]:
            told = gloo["ranks"].get(str(rank), silent) if gloo else silent
            yield name, rank, told, gloo["ended"] if gloo else {}


def last_words(rank: RankSaid) -> str:
    """The last line that a rank printed."""
    lines = rank["log"].splitlines()
    return lines[-1][:FIRST_LINE] if lines else ""


def end_of(name: str, rank: int, told: RankSaid, ended: Ended, wanted: Sequence[str]) -> RankEnd:
    """Find out where one rank stopped."""
    # A rank has no rights and writes its own lines: a step that nobody asked for is none.
    events = [event for event in told["events"] if event["step"] in (*STEPS, "done")]
    if not events:
        code: int | str = ended.get("codes", {}).get(str(rank), "unknown")
        silent = f"it never wrote a line (exit code {code})"
        why = last_words(told) or str(ended.get("error", "")) or silent
        return RankEnd(rank, name, wanted[0], "absent", why)
    last = events[-1]
    if last["step"] == "done" or (last["step"] == wanted[-1] and last["state"] in GOOD):
        return RankEnd(rank, name, "", "ok", "")
    if last["state"] not in ("begin", *GOOD):
        text = str(last.get("text", "")).strip()[:FIRST_LINE]
        return RankEnd(
            rank,
            name,
            last["step"],
            last["state"],
            text,
            last.get("seen", ""),
            last.get("expected", ""),
            str(last.get("check", "")),
            tuple(last.get("ranks", ())),
        )
    if rank in ended.get("killed", []):
        return RankEnd(rank, name, last["step"], "hung", f"no end of step {last['step']}")
    code = ended.get("codes", {}).get(str(rank), "unknown")
    return RankEnd(rank, name, last["step"], "died", f"exit code {code}; {last_words(told)}")


def ends(seen: Seen) -> list[RankEnd]:
    """Where every rank stopped."""
    wanted = steps_for(seen.rungs)
    return [end_of(*found, wanted) for found in ranks_of(seen)]


def code_of(end: RankEnd) -> str:
    """The code for an end."""
    if end.state == "absent":
        return "VC-304"
    if end.state == "wrong" and end.step in STORES:
        return "VC-308"
    if end.state == "wrong":
        step = end.step.removeprefix("gpu_")
        return TRAINING.get(step) or CHECKS.get(end.check, "VC-402")
    # NCCL's watchdog ends the process when a collective times out: that is how a hang looks there.
    if STEPS[end.step] == "L7":
        return "VC-715" if end.step == "nccl_tests" else "VC-712"
    if end.state == "died":
        return "VC-303"
    return UNFINISHED.get(end.step) or ("VC-808" if STEPS[end.step] == "L8" else "VC-403")


def sentence(seen: Seen, end: RankEnd, ranks: str) -> str:
    """The cause in words."""
    master = seen.plan["master"]
    if end.step in STORES:
        port = port_of(seen, end)
        return f"{ranks} could not use the store on {master['node']} ({master['address']}:{port}): {end.text}"
    return {
        "wrong": f"{found_by(end, ranks)}: {end.text}",
        "hung": f"{ranks} hung in {end.step} until the deadline",
        "died": f"{ranks} ended in the middle of {end.step}: {end.text}",
        "absent": f"{ranks} never started: {end.text}",
    }.get(end.state, f"{ranks} failed in {end.step}: {end.text}{remote_of(seen, end.text)}")


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


def first_broken(found: Sequence[RankEnd]) -> list[RankEnd]:
    """The ranks that stopped first on the ladder; whoever stopped later was waiting for them.

    At one step a wrong value says more than a death, and that more than a failure: whoever lost its partner fails
    too. A rank that failed by itself says more than one that hung.
    """
    order = list(STEPS)
    broken = [end for end in found if end.step]
    if not broken:
        return []
    rung = min(STEPS[end.step] for end in broken)
    lowest = min(order.index(end.step) for end in broken if STEPS[end.step] == rung)
    at_step = [end for end in broken if order.index(end.step) == lowest]
    most = min(WORTH.index(end.state) for end in at_step)
    return [end for end in at_step if WORTH.index(end.state) == most]


def port_of(seen: Seen, end: RankEnd) -> int:
    """Where the store of a step is served."""
    return seen.plan["master"]["port"] if end.step == "store" else seen.plan["rendezvous"]["port"]


def fix_of(seen: Seen, end: RankEnd, node: str) -> str:
    """The next step for where a rank stopped."""
    if end.step == "import" or end.state == "absent":
        return seen.apply("packages")
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


def kind_of(end: RankEnd) -> str:
    """What ranks that stopped alike have in common, whichever peer and port their words name."""
    if end.state == "failed" and TIMED_OUT.search(end.text):
        return "timeout"
    return "lost" if end.state == "failed" and LOST.search(end.text) else end.text


def one_cause(found: Sequence[RankEnd]) -> list[list[RankEnd]]:
    """The ranks that stopped first, put together by what stopped them.

    Whoever only lost its partner follows from what stopped that one, wherever another rank of the step says more.
    """
    groups: dict[tuple[str, str, str], list[RankEnd]] = {}
    for end in first_broken(found):
        groups.setdefault((end.step, end.state, kind_of(end)), []).append(end)
    telling = [group for (_, _, kind), group in groups.items() if kind != "lost"]
    return telling or list(groups.values())


def at_deadline(end: RankEnd) -> bool:
    """A deadline of the check's own ended this rank. For ``init`` it is Gloo's word about a connection."""
    return end.step != "init" and (end.state == "hung" or kind_of(end) == "timeout")


def rule_climb(seen: Seen) -> Iterator[Finding]:
    """Every rank gets to the top."""
    for group in one_cause(ends(seen)):
        end = group[0]
        guilty = blamed(seen, group)
        nodes = list(dict.fromkeys(name for _, name in guilty))
        who = f"{'rank' if len(guilty) == 1 else 'ranks'} {in_words([str(r) for r, _ in guilty])}"
        where = f"{who} on {in_words(nodes)}"
        busy = overloaded(seen) if at_deadline(end) else ""
        yield Finding(
            "VC-306" if busy else code_of(end),
            STEPS[end.step],
            out_of_time(seen, end, where, busy) if busy else sentence(seen, end, where),
            node=nodes[0],
            peer=seen.plan["master"]["node"] if STEPS[end.step] == "L3" else in_words(nodes[1:]),
            seen=busy or end.seen or end.state,
            expected=end.expected or "ok",
            fix=more_time(seen) if busy else fix_of(seen, end, nodes[0]),
        )


def out_of_time(seen: Seen, end: RankEnd, where: str, busy: str) -> str:
    """The cause in words, where the processors had more to do than the deadline allowed for."""
    before = "every link was open just before" if "L2" in seen.rungs else "the links were not tried"
    return (
        f"{where} did not get through {end.step} in the time that this check allows ({end.text}), "
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


def seconds_of(seen: Seen, rung: str) -> float:
    """How long the slowest rank took for the steps of a rung."""
    spent = collectives(seen).get("seconds", {})
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
