"""What a kernel has too little of: neighbours, tracked connections, backlog, locked memory, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import ERROR, WARNING, Finding
from fullmesh.roles.kernel_tuning import CONNECTIONS_PER_RANK

NEARLY = 0.95
MIB = 1048576
SHM_PER_RANK = (
    32 * MIB
)  # NCCL's buffers between ranks of a node; 64 MB are too little for 8 (nccl#290)
LOCKED_LEAST = 1024 * MIB  # RDMA registers all that it sends from (nccl-tests#206)


def find_kernel_message(look: ClusterEvidence, name: str, kind: str) -> str:
    """A recent message of the kernel, "" when there was none."""
    return next(
        (e["text"] for e in look.survey(name).get("kernel_log", []) if e["kind"] == kind), ""
    )


def rule_neighbour_table(look: ClusterEvidence) -> Iterator[Finding]:
    """The neighbour table has room for every peer."""
    key = (
        "net.ipv6.neigh.default.gc_thresh3"
        if look.plan["family"] == "ipv6"
        else "net.ipv4.neigh.default.gc_thresh3"
    )
    for name in look.nodes:
        most = look.number(name, key)
        count = int(look.survey(name).get("neighbours", {}).get("count", 0))
        said = find_kernel_message(look, name, "neighbour table")
        if not said and (not most or count < NEARLY * most):
            continue
        yield Finding(
            "DG-142",
            "L1",
            f"the neighbour table of {name} is full, so it forgets peers while it talks to them",
            node=name,
            seen=said or f"{count} of {most} entries",
            expected=f"{key} well above the number of peers",
            fix=f"on {name}: sysctl -w {key}={max(4096, 4 * (most or 1024))}",
        )


def rule_conntrack(look: ClusterEvidence) -> Iterator[Finding]:
    """The table of tracked connections has room: a full one swallows new connections in silence."""
    for name in look.nodes:
        most, count = (
            look.number(name, f"net.netfilter.nf_conntrack_{k}") for k in ("max", "count")
        )
        said = find_kernel_message(look, name, "conntrack")
        if not said and (not most or count is None or count < NEARLY * most):
            continue
        yield Finding(
            "DG-143",
            "L1",
            f"the connection tracking table of {name} is full, so new connections vanish",
            node=name,
            seen=said or f"{count} of {most} entries",
            expected="room for new connections",
            fix=f"on {name}: sysctl -w net.netfilter.nf_conntrack_max={4 * (most or 65536)}",
        )


def rule_backlog(look: ClusterEvidence) -> Iterator[Finding]:
    """A listener can hold as many waiting connections as come at once: the store all ranks', Gloo every other rank's.

    Whether they wait is a matter of moments: a number that might not do is a warning, lost connections are an error.
    Linux lets one more wait than the backlog says: sk_acceptq_is_full compares with >.
    """
    world = int(look.plan["world_size"])
    for name in look.nodes:
        most = look.number(name, "net.core.somaxconn")
        # Other services overflow, too; ours did when a link to them is not open.
        hit = any(
            r["node"] == name and r["verdict"] != "open"
            for n in look.nodes
            for r in look.records(n)
        )
        lost = look.counter(name, "TcpExt.ListenOverflows") if hit else 0
        connections = CONNECTIONS_PER_RANK * world if name == look.master else world - 1
        if most is None or (most + 1 >= connections and not lost):
            continue
        yield Finding(
            "DG-144",
            "L1",
            f"listeners on {name} let {most + 1} connections wait, {world} ranks may open {connections} at once",
            node=name,
            seen=f"net.core.somaxconn={most}"
            + (f", {lost} connections lost during the probe" if lost else ""),
            expected=f"at least {max(connections - 1, 128)}",
            fix=f"on {name}: sysctl -w net.core.somaxconn=4096"
            + ("" if look.assumed else f"; {look.seen.apply('tuning')}"),
            severity=ERROR if lost else WARNING,
        )


def rule_locked_memory(look: ClusterEvidence) -> Iterator[Finding]:
    """Where RDMA is used, a process may lock the memory that it sends from."""
    for name in look.nodes:
        soft = look.survey(name).get("limits", {}).get("memlock")
        active = any(port["state"] == "ACTIVE" for port in look.survey(name).get("rdma", []))
        if soft is None or not active or soft < 0 or soft >= LOCKED_LEAST:
            continue
        yield Finding(
            "DG-148",
            "L1",
            f"a process on {name} may lock {soft // 1024} KiB of memory, RDMA needs far more",
            node=name,
            seen=f"RLIMIT_MEMLOCK {soft}",
            expected="unlimited",
            fix=f"on {name}: '* - memlock unlimited' in /etc/security/limits.d, LimitMEMLOCK=infinity "
            f"in the job's unit",
        )


def rule_shared_memory(look: ClusterEvidence) -> Iterator[Finding]:
    """The shared memory has room for NCCL's buffers."""
    for name in look.nodes:
        shm = look.survey(name).get("shm")
        # NCCL's buffers are between ranks with a GPU each; ranks without one talk through Gloo, over sockets.
        cards = len(look.survey(name).get("gpus", {}).get("cards", []))
        need = SHM_PER_RANK * max(1, min(cards, int(look.plan["nodes"][name]["local_ranks"])))
        if not shm or not shm["size"] or shm["free"] >= need:
            continue
        yield Finding(
            "DG-248",
            "L1",
            f"shared memory (/dev/shm) on {name} has {shm['free'] // MIB} MiB free, its ranks need {need // MIB}",
            node=name,
            seen=f"{shm['free'] // MIB} of {shm['size'] // MIB} MiB free",
            expected=f"at least {need // MIB} MiB free",
            fix=f"on {name}: mount -o remount,size=2G /dev/shm; of a container: --shm-size=2g or --ipc=host",
        )


RULES = (rule_neighbour_table, rule_conntrack, rule_backlog, rule_locked_memory, rule_shared_memory)
