"""Check the GPUs of the nodes before a job starts: healthy, of one model, all in use, and with a matching torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from fullmesh.foreign_text import parse_decimal
from fullmesh.model.auto import VISIBLE, list_visible_devices
from fullmesh.observed.gpu import GpuCard
from fullmesh.observed.survey import GpuSurvey
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify import card_faults, xids
from fullmesh.verify.model import ClusterObservations


def get_gpu_survey(seen: ClusterObservations, name: str) -> GpuSurvey:
    """Return the survey of a node's GPUs, or {}."""
    return cast("GpuSurvey", seen.survey(name).get("gpus", {}))


def list_gpus(seen: ClusterObservations, name: str) -> list[GpuCard]:
    """List a node's GPUs, as nvidia-smi shows them."""
    return get_gpu_survey(seen, name).get("cards", [])


def has_gpus(seen: ClusterObservations, name: str) -> bool:
    """Return whether the driver or the bus shows a GPU. One without a driver counts, because it is unused."""
    held = get_gpu_survey(seen, name)
    return bool(held.get("present") or held.get("pci"))


def describe_gpus(seen: ClusterObservations, name: str) -> str:
    """Describe ``8 x NVIDIA H100``, or the GPUs on the bus if no driver works."""
    models = Counter(card["name"] for card in list_gpus(seen, name))
    on_bus = len(get_gpu_survey(seen, name).get("pci", []))
    without = f"{on_bus} GPU(s) on the PCI bus" if on_bus else "GPUs that nvidia-smi does not show"
    return join_names([f"{times} x {model}" for model, times in sorted(models.items())]) or without


def get_torch_build(seen: ClusterObservations, name: str) -> str:
    """Return the build of a node's torch: cpu, cuda, hip, or "" if unknown."""
    return str(seen.facts(name).get("software", {}).get("torch_build", ""))


def rule_torch_build(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that torch is built for GPUs on nodes that have some."""
    idle = [
        n for n in seen.plan["nodes"] if has_gpus(seen, n) and get_torch_build(seen, n) == "cpu"
    ]
    if idle:
        yield Finding(
            "VC-717",
            "L7",
            f"there are GPUs on {join_names(idle)} ({describe_gpus(seen, idle[0])}) and torch there is built for CPUs: "
            "no job can use them",
            node=idle[0],
            peer=join_names(idle[1:]),
            seen=f"torch {seen.facts(idle[0]).get('versions', {}).get('torch', '')}",
            expected="torch built for CUDA",
            fix=f"torch_runtime_accelerator: cuda for {join_names(idle)} in the inventory. "
            f"Then {seen.apply('packages')}",
        )


def count_usable_gpus(seen: ClusterObservations, name: str) -> tuple[int, str]:
    """Return how many GPUs a job on a node may use (0: unknown), and the source of the number.

    With MIG, a GPU is several devices, which are not counted.
    """
    cards = list_gpus(seen, name)
    if any(card.get("mig") == "Enabled" for card in cards):
        return 0, ""
    given = seen.survey(name).get("environment", {}).get("values", {}).get(VISIBLE)
    if given and has_gpus(seen, name):
        return len(list_visible_devices(given["value"])), VISIBLE
    return len(cards) or len(get_gpu_survey(seen, name).get("pci", [])), "GPUs"


def has_explicit_ranks(seen: ClusterObservations, name: str) -> bool:
    """Return whether the inventory itself sets the ranks of a node. Plans from before ``auto`` count as not set."""
    asked = seen.plan.get("auto")
    return asked is not None and not (name in asked and asked[name]["ranks"])


def rule_ranks_per_gpu(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a node starts as many ranks as it has GPUs. If the user set fewer, it is only a warning."""
    groups: dict[tuple[int, int, str, bool], list[str]] = {}
    for name, node in seen.plan["nodes"].items():
        count, source = count_usable_gpus(seen, name)
        ranks = int(node["local_ranks"])
        if count and count != ranks:
            key = (ranks, count, source, has_explicit_ranks(seen, name))
            groups.setdefault(key, []).append(name)
    for (ranks, count, source, by_hand), names in groups.items():
        said = f"{VISIBLE} names {count} GPUs" if source == VISIBLE else f"{count} GPUs are there"
        idle = f"{count - ranks} of them idle" if ranks < count else "the others have none"
        yield Finding(
            "VC-718",
            "L7",
            f"a job starts {ranks} rank(s) on {join_names(names)} and {said}: {idle}",
            node=names[0],
            peer=join_names(names[1:]),
            seen=f"fullmesh_local_ranks: {ranks}" + (", set by hand" if by_hand else ""),
            expected=f"fullmesh_local_ranks: {count}",
            fix=(
                f"fullmesh_local_ranks: {count} for {join_names(names)}, or auto, in the inventory (or, if jobs "
                "should not use "
                f"all GPUs, cluster_env_extra: {{{VISIBLE}: ...}}). Then {seen.apply('launch')}"
            ),
            severity=WARNING if by_hand and ranks < count else ERROR,
        )


def rule_same_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that all nodes have the same number of GPUs of one model, with one driver."""
    table = {}
    for name in seen.plan["nodes"]:
        held = get_gpu_survey(seen, name)
        shown = describe_gpus(seen, name) if has_gpus(seen, name) else "none"
        if "present" in held and not held.get("failed") and not card_faults.has_hidden_gpus(held):
            driver = f", driver {held.get('driver') or 'none'}" if list_gpus(seen, name) else ""
            table[name] = shown + driver
    if len(set(table.values())) < 2:  # noqa: PLR2004 (two that differ)
        return
    usual = Counter(table.values()).most_common(1)[0][0]
    usual = max(table.values()) if usual == "none" else usual
    odd = [name for name, row in table.items() if row != usual]
    yield Finding(
        "VC-111",
        "L1",
        f"the GPUs of {join_names(odd)} are {table[odd[0]]}, and those of the others are {usual}",
        node=odd[0],
        peer=join_names([name for name in table if name not in odd]),
        seen=table[odd[0]],
        expected=usual,
        check=f"on {odd[0]}: nvidia-smi -L && lspci -d 10de: && dmesg | grep NVRM",
        fix="install one driver branch on all nodes (role nvidia_driver), or replace the missing GPU",
        severity=WARNING,
    )


def rule_ecc_errors(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no GPU had an uncorrectable memory error since the driver was loaded."""
    for name in seen.plan["nodes"]:
        bad = [card for card in list_gpus(seen, name) if card.get("ecc_volatile")]
        if bad:
            yield Finding(
                "VC-112",
                "L1",
                f"{join_names([str(card['bus']) for card in bad])} of {name} had memory errors that ECC could not fix",
                node=name,
                seen=f"{sum(card['ecc_volatile'] for card in bad)} uncorrectable errors",
                expected="0",
                check=f"on {name}: nvidia-smi -q -d ECC,ROW_REMAPPER",
                fix=f"reboot {name}, which remaps rows. Replace the GPU if the errors return",
            )


def rule_xid_errors(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the driver reported no error of a GPU or an NVSwitch in the last minutes."""
    for name in seen.plan["nodes"]:
        events = [e for e in seen.survey(name).get("kernel_log", []) if e["kind"] == "gpu"]
        said = {report: e["text"] for e in events if (report := xids.parse_xid(e["text"]))}
        if not said:
            continue
        worst, *others = xids.sort_xids(list(said))
        other_names = join_names(
            list(dict.fromkeys(one.name for one in others if one.name != worst.name))
        )
        yield Finding(
            "VC-113",
            "L1",
            f"the driver of {name} reported {worst.name}{' of ' * bool(worst.bus)}{worst.bus}: {worst.meaning.words}"
            + (f" (with {other_names})" if other_names else ""),
            node=name,
            seen=said[worst],
            expected="no Xid in the last quarter of an hour",
            fix=f"on {name}: {worst.meaning.cure}",
            severity=ERROR if worst.meaning.stops else WARNING,
        )


def parse_pcie_lanes(text: str) -> int:
    """Return the lanes of a PCIe link, from ``16x``."""
    text = text.removesuffix("x")
    return parse_decimal(text) or 0


def rule_pcie_width(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a GPU has as many PCIe lanes as others of its model, and at least a quarter of its maximum.

    Fewer than the maximum is not a fault: a T4 and an A10G on EC2 have 8 of 16 by design.
    """
    lanes: dict[str, int] = {}
    for name in seen.plan["nodes"]:
        for card in list_gpus(seen, name):
            lanes[card["name"]] = max(
                lanes.get(card["name"], 0), parse_pcie_lanes(card.get("width", ""))
            )
    for name in seen.plan["nodes"]:
        for card in list_gpus(seen, name):
            have, usual = parse_pcie_lanes(card.get("width", "")), lanes[card["name"]]
            least = max(usual, parse_pcie_lanes(card.get("width_most", "")) // 4)
            if 0 < have < least:
                yield Finding(
                    "VC-114",
                    "L1",
                    f"the GPU {card['bus']} of {name} has {have} PCIe lanes, others of its model {usual}",
                    node=name,
                    seen=f"{have} lanes",
                    expected=f"{least} lanes",
                    check=f"on {name}: nvidia-smi -q -d PCIE && lspci -vv | grep LnkSta",
                    fix=f"on {name}: reseat the GPU or riser",
                    severity=WARNING,
                )


def rule_persistence_mode(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the driver stays loaded between jobs. A driver without this mode (WSL) reports nothing."""
    off = [
        name
        for name in seen.plan["nodes"]
        if any(card.get("persistence") == "Disabled" for card in list_gpus(seen, name))
    ]
    if off:
        yield Finding(
            "VC-115",
            "L1",
            f"persistence mode is off on {join_names(off)}: every job waits for the driver, its counters are lost",
            node=off[0],
            peer=join_names(off[1:]),
            seen="Disabled",
            expected="Enabled",
            fix=f"on {off[0]}: systemctl enable --now nvidia-persistenced (role nvidia_driver does it)",
            severity=WARNING,
        )


def rule_gpu_faults(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no GPU reports a fault."""
    boxes = {
        name: card_faults.GpuNodeFacts(
            held,
            busy=bool(seen.survey(name).get("jobs")),
            rdma=any(port["state"] == "ACTIVE" for port in seen.survey(name).get("rdma", [])),
        )
        for name in seen.plan["nodes"]
        if "present" in (held := get_gpu_survey(seen, name))
    }
    yield from card_faults.find_gpu_faults(boxes)


# NCCL derives these from the hardware. A value that helps on one machine can slow down the next one.
TUNED = (
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS"),
    *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL"),
)


# Role cluster_env writes this file from cluster_env_extra, and would write it again.
OURS = "/etc/fullmesh/env"


def rule_nccl_tuning(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no setting overrides NCCL's own choices."""
    for name in seen.plan["nodes"]:
        values = seen.survey(name).get("environment", {}).get("values", {})
        held = {one: values[one] for one in TUNED if one in values}
        if held and has_gpus(seen, name):
            words = [f"{one}={row['value']} ({row['source']})" for one, row in held.items()]
            places = {
                "cluster_env_extra in the inventory"
                if row["source"] == OURS
                else f"{row['source']} on {name}"
                for row in held.values()
            }
            yield Finding(
                "VC-144",
                "L1",
                f"every job on {name} gets {join_names(words)}, which overrides NCCL's own choice",
                node=name,
                seen=join_names(list(held)),
                expected="not set",
                fix=f"remove them from {join_names(sorted(places))}, and measure with and without: "
                f"./fullmesh verify -i {seen.inventory}",
                severity=WARNING,
            )


# A diagnosis uses these rules too. It compares the nodes' GPUs with its own rules.
HEALTH_RULES = (
    rule_xid_errors,
    rule_ecc_errors,
    rule_pcie_width,
    rule_persistence_mode,
    rule_gpu_faults,
    rule_nccl_tuning,
)
CARD_RULES = (
    rule_same_gpus,
    *HEALTH_RULES,
    *(rule_torch_build, rule_ranks_per_gpu),
)


def check_gpu_health(seen: ClusterObservations) -> list[Finding]:
    """Return the faults that the GPUs of each node report."""
    return [finding for rule in HEALTH_RULES for finding in rule(seen)]


def check_gpus(seen: ClusterObservations) -> list[Finding]:
    """Return the faults of GPUs that are known before a job starts: their reports, and differences of nodes."""
    return [finding for rule in CARD_RULES for finding in rule(seen)]
