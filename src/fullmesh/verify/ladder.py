"""The verification ladder: observations become rungs, findings and a verdict. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, cast

from fullmesh.faults import Fault
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.result.types import RankRow, RungId, Status
from fullmesh.verify import bisected, gid_pins, mesh, pairs, probe_wants, rank_ends, schedule
from fullmesh.verify import cards as verify_cards
from fullmesh.verify import gpu as verify_gpu
from fullmesh.verify import node as verify_node
from fullmesh.verify import ranks as verify_ranks
from fullmesh.verify.model import (
    FAILED,
    NOT_RUN,
    PASSED,
    RUNGS,
    SKIPPED,
    CheckOutcome,
    ClusterObservations,
)

CODES: dict[str, str] = {
    "VC-701": "verify_cluster_rungs names a rung that does not exist",
    "VC-780": "verify_cluster_links is no way to try the mesh",
    "VC-702": "a number among the settings of verify_cluster makes no sense",
    "VC-121": "a node does not have its cluster address",
    "VC-122": "the cluster address is on another interface than the plan says",
    "VC-123": "the host name is not the plan's",
    "VC-101": "a node name resolves to something else than the cluster address",
    "VC-102": "a node's own name leads to loopback or nowhere",
    "VC-103": "a clock differs too much",
    "VC-104": "versions of torch, Python or NCCL differ",
    "VC-105": "too few file descriptors for the world size",
    "VC-106": "the cluster interface has no carrier",
    "VC-107": "the pinned port range is not in force",
    "VC-108": "the data range is reserved, so the kernel cannot give it out",
    "VC-109": "the master or rendezvous port is taken",
    "VC-110": "MTUs differ (warning)",
    "VC-111": "number, model or driver of the GPUs differ (warning)",
    "VC-112": "a GPU had memory errors that ECC could not fix",
    "VC-113": "the NVIDIA driver reported an error, Xid (a warning where jobs go on)",
    "VC-114": "a GPU has fewer PCIe lanes than others of its model (warning)",
    "VC-115": "persistence mode is off (warning)",
    "VC-116": "kernel, glibc, NIC driver, CUDA, locale or time zone differ from those of most nodes (warning)",
    "VC-117": "torch is built for a newer CUDA than the GPU driver runs",
    "VC-118": "torch's own NCCL and the system's are different versions (warning)",
    "VC-131": "NVIDIA's driver or its tool does not work on a node",
    "VC-132": "a GPU is on the bus and the driver does not show it",
    "VC-133": "a GPU has memory that could not be remapped",
    "VC-134": "a GPU has memory that is remapped at the next reset (warning)",
    "VC-135": "a GPU has NVLinks that are down (warning)",
    "VC-136": "the NVLink fabric of a node is not set up",
    "VC-137": "the clocks of a GPU are held down (warning)",
    "VC-138": "a GPU lets nobody compute",
    "VC-139": "MIG is on (warning)",
    "VC-140": "programs hold memory of a GPU and no job runs (warning)",
    "VC-141": "ACS sends what GPUs and RDMA cards say to each other up to the processor (warning)",
    "VC-142": "the IOMMU translates every access of the GPUs (warning)",
    "VC-143": "RDMA cards reach the GPUs' memory through the host's only (warning)",
    "VC-144": "NCCL's own choices are taken away from it by variables (warning)",
    "VC-145": "the GPUs of a node have fewer NVLinks than the same cards elsewhere (warning)",
    "VC-146": "all RDMA cards are on another processor than the GPUs (warning)",
    "VC-148": "NCCL_IB_GID_INDEX points to an entry of a RoCE port that is empty, link-local or RoCE v1",
    "VC-147": "the fabric manager does not run, or is not the driver's own version (warning)",
    "VC-201": "a link drops packets",
    "VC-202": "a link rejects connections",
    "VC-203": "a link refuses connections although a listener is there",
    "VC-204": "no route to a peer",
    "VC-205": "connections are cut off after they were made",
    "VC-206": "packets leave with another source address than the cluster's",
    "VC-207": "something else answers at a peer's address",
    "VC-208": "large packets are lost (MTU black hole)",
    "VC-209": "a listener answered late (warning)",
    "VC-210": "peers reach a port that the plan does not open",
    "VC-211": "an outsider reaches the master or rendezvous port",
    "VC-212": "the kernel gave out a port outside the data range",
    "VC-213": "a listener could not be opened",
    "VC-301": "the store or rendezvous port is not usable from a rank",
    "VC-302": "torch cannot be imported",
    "VC-303": "a rank died",
    "VC-304": "a rank never started",
    "VC-305": "the account of the ranks, which has no rights, cannot be had or cannot run torch's Python",
    "VC-306": "not finished, the machine is busy: a deadline of the check's own ended",
    "VC-307": "a module's answer has another form than this version reads",
    "VC-308": "somebody who is not of the run writes into its store",
    "VC-309": "The connection to a node was lost while its ranks ran",
    "VC-310": "The account of the ranks may not read a file that jobs need",
    "VC-311": "A shared library that torch needs is missing or does not fit",
    "VC-312": "The environment file of jobs has a line that cannot be read",
    "VC-401": "Gloo could not connect all ranks",
    "VC-402": "a collective returned a wrong value",
    "VC-403": "a collective failed or hung",
    "VC-501": "a rank listened outside the data range",
    "VC-502": "a rank listened on an address that is not the cluster's",
    "VC-601": "NCCL announces another address than the cluster's",
    "VC-602": "NCCL listens outside the data range",
    "VC-603": "NCCL could not open its bootstrap listener",
    "VC-604": "the NCCL library is missing on some nodes",
    "VC-711": "a rank has no GPU of its own while others have one",
    "VC-712": "NCCL could not connect all GPUs, or hung",
    "VC-713": "NCCL returned a wrong value",
    "VC-714": "NCCL's bandwidth is far below the link's speed (warning)",
    "VC-715": "nccl-tests failed on a node",
    "VC-716": "the GPUs of a node are slower among themselves than the others' (warning)",
    "VC-717": "a node has GPUs and a torch that is built for CPUs",
    "VC-718": "a node starts more or fewer ranks than it has GPUs (a warning for fewer, set by hand)",
    "VC-719": "a node has GPUs and torch sees none",
    "VC-720": "NCCL uses TCP although every node has RDMA (warning)",
    "VC-721": "NCCL takes different networks on the nodes of one job",
    "VC-722": "the GPUs of a node use a small part of their NVLinks (warning)",
    "VC-723": "NCCL sends the GPUs' data through the host's memory (warning)",
    "VC-724": "A rank failed before the first collective of NCCL",
    "VC-801": "a rank starts training from other data or parameters",
    "VC-802": "DistributedSampler gave a sample twice or lost one",
    "VC-803": "loss or parameters differ between the ranks after training",
    "VC-804": "training over all ranks gives another loss than one process alone",
    "VC-805": "mixed precision does not train as it must",
    "VC-806": "training in subgroups mixes or loses something",
    "VC-807": "FSDP does not shard, or trains something else",
    "VC-808": "a training step failed or hung",
    **bisected.CODES,
}
JOB_RUNGS: tuple[RungId, ...] = ("L3", "L4", "L5", "L7", "L8")
NOT_ASKED = "not asked for (verify_cluster_rungs)"
LIMITS = {
    "verify_cluster_deadline": (10, 3600),
    "verify_cluster_init_timeout": (1, 600),
    "verify_cluster_link_deadline": (0.5, 60),
    "verify_cluster_payload_bytes": (0, 16777216),
    "verify_cluster_sample_ports": (1, 64),
    "verify_cluster_bandwidth_mib": (1, 4096),
    "verify_cluster_clock_limit": (0.1, 3600),
}


def parse_setting_number(value: Any) -> float | None:
    """Read a number, also as the text that ``-e name=8`` gives; None when it is none."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def find_verify_faults(options: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the role's settings."""
    found = []
    unknown = [str(rung) for rung in options["verify_cluster_rungs"] if rung not in RUNGS]
    if unknown or not options["verify_cluster_rungs"]:
        found.append(
            Fault(
                "VC-701",
                f"verify_cluster_rungs has {unknown or 'nothing'}, which is no rung of the ladder",
                f"Choose from {', '.join(RUNGS)}",
            )
        )
    how = str(options["verify_cluster_links"])
    if how not in schedule.HOW:
        found.append(
            Fault(
                "VC-780",
                f"verify_cluster_links is {how!r}",
                f"Choose from {', '.join(schedule.HOW)}",
            )
        )
    numbers = {name: parse_setting_number(options[name]) for name in LIMITS}
    for name, (low, high) in LIMITS.items():
        value = numbers[name]
        if value is None or not low <= value <= high:
            step = f"Give a number from {low:g} to {high:g}"
            found.append(Fault("VC-702", f"{name} is {options[name]!r}", step))
    init, deadline = (numbers[f"verify_cluster_{x}"] for x in ("init_timeout", "deadline"))
    if not found and init is not None and deadline is not None and init >= deadline:
        found.append(
            Fault(
                "VC-702",
                f"verify_cluster_init_timeout ({options['verify_cluster_init_timeout']}) is not below "
                f"verify_cluster_deadline ({options['verify_cluster_deadline']})",
                "Raise the deadline; Gloo waits five times its timeout",
            )
        )
    return found


def filter_asked_findings(seen: ClusterObservations, found: Sequence[Finding]) -> list[Finding]:
    """The findings of the rungs that were asked for."""
    return [finding for finding in found if finding.rung in seen.rungs]


def add_lower_checks(seen: ClusterObservations) -> ClusterObservations:
    """A rung of the job brings those below it: without them it would pass where the job broke off."""
    last = max((JOB_RUNGS.index(rung) for rung in seen.rungs if rung in JOB_RUNGS), default=-1)
    brought = [rung for rung in JOB_RUNGS[: last + 1] if rung not in seen.rungs]
    return replace(seen, rungs=(*seen.rungs, *brought)) if brought else seen


def list_check_errors(found: Sequence[Finding], rungs: Sequence[str]) -> list[Finding]:
    """The findings that fail one of *rungs*."""
    return [f for f in found if f.rung in rungs and f.severity == ERROR]


def list_nodes_without_torch(seen: ClusterObservations) -> list[str]:
    """The nodes whose interpreter of the jobs has no torch."""
    return [n for n in seen.plan["nodes"] if not seen.facts(n).get("versions", {}).get("torch")]


def explain_no_start(seen: ClusterObservations, below: Sequence[Finding]) -> str:
    """Why no Gloo job should be started now; empty when it should.

    A job on a broken mesh only hangs: Gloo waits five times its timeout and names the wrong node.
    """
    if not any(rung in seen.rungs for rung in JOB_RUNGS):
        return NOT_ASKED
    broken = sorted({f.rung for f in list_check_errors(below, ("L0", "L2"))})
    if broken:
        return f"{' and '.join(broken)} failed, so Gloo would only hang"
    if seen.left_out():
        return describe_limited_nodes(seen.left_out())
    taken = [f for f in below if f.code == "VC-109"]
    if taken:
        return f"L1 failed: {taken[0].cause}"
    lacking = list_nodes_without_torch(seen)
    if lacking and seen.check_mode:
        return f"check mode: torch is not installed on {join_names(lacking)}"
    return ""


def check_before_job(seen: ClusterObservations) -> list[Finding]:
    """The findings that are known before a job is started."""
    rules = (
        verify_node.check_nodes,
        verify_cards.check_gpus,
        gid_pins.find_bad_gid_pins,
        pairs.check_links,
    )
    return filter_asked_findings(seen, [finding for rule in rules for finding in rule(seen)])


class JobStart(TypedDict):
    """Whether the ranks are started; *deadline* and *init_timeout* in seconds."""

    go: bool
    reason: str
    steps: list[str]
    deadline: int
    init_timeout: int


def decide_job_start(seen: ClusterObservations) -> JobStart:
    """Say whether the ranks shall be started, which steps they take, and why not."""
    seen = add_lower_checks(seen)
    reason = explain_no_start(seen, check_before_job(seen))
    factor = verify_ranks.compute_time_factor(seen)
    return {
        "go": not reason,
        "reason": reason,
        "steps": rank_ends.list_steps(seen.rungs),
        "deadline": round(seen.deadline * factor),
        "init_timeout": round(seen.init_timeout * factor),
    }


def find_longest_call(seen: ClusterObservations, part: str, inner: str = "") -> float:
    """The longest time that a call took on a node."""
    found = 0.0
    for said in seen.nodes.values():
        answers: Mapping[str, Any] = cast("Mapping[str, Any]", said)
        answer = answers.get(part, {})
        answer = answer.get(inner, {}) if inner else answer
        found = max(found, float(answer.get("seconds", 0.0) or 0.0))
    return found


def describe_limited_nodes(nodes: Sequence[str]) -> str:
    """That nodes are left out of the run, in words."""
    return f"{join_names(nodes)} left out of this run (--limit)"


def limit_to_run_nodes(seen: ClusterObservations, rung: CheckOutcome) -> CheckOutcome:
    """A rung that holds on the nodes of the run says nothing about those that were left out."""
    if rung.status != PASSED or not seen.left_out():
        return rung
    return CheckOutcome(
        rung.id, NOT_RUN, describe_limited_nodes(seen.left_out()), rung.seconds, rung.details
    )


def judge_check(
    seen: ClusterObservations,
    rung: RungId,
    found: Sequence[Finding],
    seconds: float,
    details: Mapping[str, object],
) -> CheckOutcome:
    """A rung that was measured on all nodes."""
    if rung not in seen.rungs:
        return CheckOutcome(rung, SKIPPED, NOT_ASKED)
    bad = list_check_errors(found, (rung,))
    reason = bad[0].cause if bad else ""
    return CheckOutcome(rung, FAILED if bad else PASSED, reason, seconds, details)


def judge_link_check(
    seen: ClusterObservations, found: Sequence[Finding], why_not_outside: str
) -> CheckOutcome:
    """L2."""
    wanted, tried = mesh.count_wanted_pairs(seen), mesh.count_tried_pairs(seen)
    details = {
        "pairs": tried,
        "open": tried - mesh.count_blocked_pairs(seen),
        "connections": sum(mesh.count_connections(seen, n) for n in seen.plan["nodes"]),
        "notes": [
            *pairs.describe_untested_guards(seen, why_not_outside),
            *mesh.describe_coverage(seen),
            *probe_wants.describe_untried_ports(seen.plan),
        ],
        "outsider": [
            {"node": r["node"], "port": r["port"], "verdict": r["verdict"]}
            for r in seen.outside.get("links", [])
        ],
    }
    rung = judge_check(seen, "L2", found, find_longest_call(seen, "links"), details)
    if rung.status == PASSED and not wanted:
        return CheckOutcome("L2", SKIPPED, "one node has no links")
    if rung.status == PASSED and tried < wanted:
        return CheckOutcome(
            "L2", NOT_RUN, f"only {tried} of {wanted} links were tried", 0.0, details
        )
    return rung


def get_job_details(
    seen: ClusterObservations, rung: str, table: Sequence[RankRow]
) -> Mapping[str, object]:
    """What is kept of a rung of the job."""
    if rung == "L7":
        return verify_gpu.build_nccl_details(seen)
    if rung == "L8":
        return verify_gpu.build_training_details(seen)
    return {"ranks": list(table)} if rung == "L3" else {}


def judge_job_checks(
    seen: ClusterObservations, found: Sequence[Finding], why_not: str
) -> list[CheckOutcome]:
    """L3 to L5, L7 and L8: in order, nothing above a broken one."""
    rungs: list[CheckOutcome] = []
    table = [] if why_not else verify_ranks.build_rank_rows(seen)
    spent = verify_ranks.summarize_collectives(seen)
    for rung in JOB_RUNGS:
        if rung not in seen.rungs:
            rungs.append(CheckOutcome(rung, SKIPPED, NOT_ASKED))
            continue
        if why_not:
            word: Status = SKIPPED if seen.check_mode else NOT_RUN
            rungs.append(CheckOutcome(rung, word, why_not))
            continue
        broken = next((r for r in rungs if r.status == FAILED), None)
        if broken:
            rungs.append(CheckOutcome(rung, NOT_RUN, f"{broken.id} failed"))
            continue
        absent = verify_gpu.explain_no_gpus(seen) if rung == "L7" else ""
        if absent:
            rungs.append(CheckOutcome(rung, SKIPPED, absent))
            continue
        details = get_job_details(seen, rung, table)
        seconds = verify_ranks.sum_check_seconds(spent, rung)
        judged = judge_check(seen, rung, found, seconds, details)
        if rung == "L7" and judged.status == PASSED:
            judged = replace(judged, reason=verify_gpu.describe_nccl_library(seen))
        rungs.append(judged)
    return rungs


def judge_nccl_check(seen: ClusterObservations, found: Sequence[Finding]) -> CheckOutcome:
    """L6."""
    reason = verify_node.explain_no_nccl(seen)
    if "L6" in seen.rungs and reason:
        return CheckOutcome("L6", SKIPPED, reason)
    details = {
        name: {k: v for k, v in node.get("node", {}).get("nccl", {}).items() if v}
        for name, node in seen.nodes.items()
    }
    return judge_check(seen, "L6", found, find_longest_call(seen, "node", "nccl"), details)


def soften_in_check_mode(
    rungs: Sequence[CheckOutcome], found: Sequence[Finding]
) -> tuple[list[CheckOutcome], list[Finding]]:
    """In check mode nothing was configured, so nothing is demanded; the findings stay, as warnings."""
    mild = [replace(f, severity=WARNING) if f.severity == ERROR else f for f in found]
    softened = [
        CheckOutcome(r.id, SKIPPED, f"check mode: {r.reason}", r.seconds, r.details)
        if r.status in (FAILED, NOT_RUN)
        else r
        for r in rungs
    ]
    return softened, mild


def judge_all_checks(
    seen: ClusterObservations, why_not_outside: str = ""
) -> tuple[list[CheckOutcome], list[Finding]]:
    """Judge everything."""
    seen = add_lower_checks(seen)
    below = check_before_job(seen)
    why_not = explain_no_start(seen, below)
    job = [] if why_not else [*verify_ranks.check_ranks(seen), *verify_gpu.check_gpu_jobs(seen)]
    job += bisected.check_bisect_runs(seen)
    found = [*below, *filter_asked_findings(seen, job)]
    facts_seconds = find_longest_call(seen, "node", "facts")
    clocks = {n: round(v, 3) for n, v in verify_node.compute_clock_offsets(seen).items()}
    rungs = [
        limit_to_run_nodes(seen, judge_check(seen, "L0", found, facts_seconds, {})),
        limit_to_run_nodes(
            seen, judge_check(seen, "L1", found, facts_seconds, {"clock_offsets": clocks})
        ),
        judge_link_check(seen, found, why_not_outside),
        *judge_job_checks(seen, found, why_not),
        limit_to_run_nodes(seen, judge_nccl_check(seen, found)),
    ]
    order = list(RUNGS)
    rungs.sort(key=lambda rung: order.index(rung.id))
    found = sorted(found, key=lambda f: (f.severity != ERROR, order.index(f.rung)))
    return soften_in_check_mode(rungs, found) if seen.check_mode else (rungs, found)
