"""What the next boot changes: what runs now against what files, units and the boot loader keep.

A class of its own: warnings that are no cause of anything that is wrong now, so nothing is folded under them, nor they
under anything. What a container does not have of its own (kernel, modules, SELinux, /dev/shm) is not judged there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullmesh.causes.evidence import ClusterEvidence, Rule
from fullmesh.observed.next_boot import KeptKernel, KeptUnit, NextBoot
from fullmesh.observed.ports import parse_port_ranges
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.result.types import RungId

PORT_RANGE, RESERVED = "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"
# What the kernel begins with; of other settings it depends on the memory or the kernel's age.
DEFAULTS = {PORT_RANGE: "32768 60999", RESERVED: ""}
GONE = (
    "disabled",
    "masked",
    "enabled-runtime",
    "masked-runtime",
)  # UnitFileState: not started at boot
STARTS = ("enabled", "static", "indirect", "generated", "alias", "linked")
# Of each of these one that starts is enough.
INSTEAD = (
    ("ssh.service", "sshd.service", "ssh.socket"),
    ("NetworkManager.service", "systemd-networkd.service", "networking.service"),
    ("chronyd.service", "chrony.service", "ntpd.service", "systemd-timesyncd.service"),
    ("firewalld.service", "nftables.service", "ufw.service"),
)
SHM = "/dev/shm"  # noqa: S108 (a mount point's name)
AUTOFS = "autofs"
# Arguments of the kernel that jobs feel: names of cards, address families, IOMMU and PCI, SELinux, memory, the driver.
ARGUMENTS = (
    "net.ifnames=", "biosdevname=", "ipv6.disable=", "iommu", "intel_iommu=", "amd_iommu=", "pci=", "pcie_",
    "selinux=", "enforcing=", "hugepage", "default_hugepagesz=", "transparent_hugepage=", "numa", "isolcpus=",
    "nohz_full=", "cgroup", "systemd.unified_cgroup_hierarchy=", "nvidia", "nouveau", "modprobe.blacklist=",
    "rd.driver.blacklist=", "module_blacklist=", "nokaslr",
)  # fmt: skip


def get_next_boot(look: ClusterEvidence, name: str) -> NextBoot:
    """What a node keeps; {} where it was not looked at."""
    return look.survey(name).get("next_boot", {})


def make_boot_warning(  # noqa: PLR0913 (the fields of a finding)
    code: str, cause: str, node: str, *, seen: str, expected: str, fix: str, rung: RungId = "L0"
) -> Finding:
    """A finding of this class."""
    return Finding(
        code, rung, cause, node=node, seen=seen, expected=expected, fix=fix, severity=WARNING
    )


def is_same_setting(key: str, one: str, other: str) -> bool:
    """Whether two values of a kernel setting are one."""
    if key == RESERVED:
        return expand_port_spans(one) == expand_port_spans(other)
    return one.split() == other.split()


def expand_port_spans(text: str) -> set[int]:
    """The ports of a list."""
    return {port for span in parse_port_ranges(text) for port in range(span.first, span.last + 1)}


def rule_boot_settings(look: ClusterEvidence) -> Iterator[Finding]:
    """Kernel settings come back as files set them (sysctl.d(5)), or as the kernel begins."""
    for name in look.nodes:
        held = get_next_boot(look, name)
        apart = []
        for key, boot in held.get("settings", {}).items():
            now = look.survey(name).get("sysctls", {}).get(key)
            later = boot["value"] if boot["source"] else DEFAULTS.get(key)
            if now is None or later is None or key in held.get("tuned", []):
                continue
            if not is_same_setting(key, now, later):
                apart.append((key, now, later, boot["source"] or "no file sets it"))
        if apart:
            keys = join_names([one[0] for one in apart])
            yield make_boot_warning(
                "DG-163",
                f"{keys} of {name} will have another value after the next boot",
                name,
                seen="; ".join(f"{key} is {now or 'empty'}" for key, now, _, _ in apart),
                expected="; ".join(
                    f"{later or 'empty'} at boot ({source})" for _, _, later, source in apart
                ),
                fix=f"on {name}: write what is meant into /etc/sysctl.d/90-local.conf, or take it at once: "
                + "; ".join(f"sysctl -w {key}='{later}'" for key, _, later, _ in apart),
            )


def is_started_at_boot(unit: KeptUnit) -> bool:
    """Whether the next boot starts a unit."""
    return unit["load"] != "masked" and unit["file"] in STARTS


def rule_boot_units(look: ClusterEvidence) -> Iterator[Finding]:
    """What the node needs and runs now is started by the next boot as well."""
    for name in look.nodes:
        units = {unit["name"]: unit for unit in get_next_boot(look, name).get("units", [])}
        lost = []
        for unit in units.values():
            others = next((group for group in INSTEAD if unit["name"] in group), ())
            stands_in = any(
                one != unit["name"] and one in units and is_started_at_boot(units[one])
                for one in others
            )
            if unit["active"] == "active" and unit["file"] in GONE and not stands_in:
                lost.append(unit)
        if lost:
            words = join_names([unit["name"] for unit in lost])
            masked = [unit["name"] for unit in lost if unit["file"].startswith("masked")]
            unmask = f"systemctl unmask {' '.join(masked)}; " if masked else ""
            yield make_boot_warning(
                "DG-164",
                f"{words} of {name} will not start at the next boot",
                name,
                seen="; ".join(f"{unit['name']} is active and {unit['file']}" for unit in lost),
                expected="enabled",
                fix=f"on {name}: {unmask}systemctl enable {' '.join(u['name'] for u in lost)}",
            )


def rule_boot_firewall(look: ClusterEvidence) -> Iterator[Finding]:
    """No firewall that does not filter now begins to at the next boot."""
    for name in look.nodes:
        for unit in get_next_boot(look, name).get("units", []):
            what = describe_new_filtering(look, name, unit) if is_started_at_boot(unit) else ""
            if what:
                short = unit["name"].partition(".")[0]
                yield make_boot_warning(
                    "DG-165",
                    f"{short} of {name} does not filter now and will after the next boot",
                    name,
                    seen=what,
                    expected="off in both, or on in both with the cluster's ports open",
                    fix=f"on {name}: systemctl disable {unit['name']}; or start it and open the ports"
                    + ("" if look.assumed else f": {look.seen.apply('firewall')}"),
                )


def describe_new_filtering(look: ClusterEvidence, name: str, unit: KeptUnit) -> str:
    """What a unit that starts at boot will filter and does not now; empty where that is nothing, or not known."""
    held, nft = get_next_boot(look, name), look.survey(name).get("nft")
    if unit["name"] == "firewalld.service":
        stands = unit["active"] in ("active", "activating", "reloading")
        return "" if stands else f"{unit['active']} now, starts at boot with its zones"
    if nft is None:
        return ""
    if unit["name"] == "ufw.service" and held.get("ufw"):
        loaded = any(str(chain.get("name", "")).startswith("ufw") for chain in nft["chains"])
        return (
            "" if loaded else "ENABLED=yes in /etc/ufw/ufw.conf, and none of its chains is loaded"
        )
    if unit["name"] == "nftables.service" and "tables" in held and held["tables"]["drops"]:
        running = {f"{chain.get('family')} {chain.get('table')}" for chain in nft["chains"]}
        later = [one for one in held["tables"]["tables"] if one not in running]
        words = join_names([f"table {one}" for one in later])
        return f"{held['tables']['source']} makes {words}, which the kernel lacks" if later else ""
    return ""


def rule_boot_address(look: ClusterEvidence) -> Iterator[Finding]:
    """The cluster address comes back."""
    for name in look.nodes:
        held = get_next_boot(look, name).get("address")
        if held and not held["leased"] and not held["kept"]:
            address = look.address(name)
            yield make_boot_warning(
                "DG-166",
                f"{name} will not have its cluster address {address} after the next boot",
                name,
                seen=f"{address} on {held['card']}, in no file that configures a card at boot",
                expected="in the files of NetworkManager, netplan, systemd-networkd, ifupdown or ifcfg",
                fix=f"on {name}: give {held['card']} the address there"
                + (" (role static_ip does)" if look.assumed else f": {look.seen.apply('network')}"),
            )


def rule_boot_routes(look: ClusterEvidence) -> Iterator[Finding]:
    """Routes to peers come back."""
    for name in look.nodes:
        lost = [one for one in get_next_boot(look, name).get("routes", []) if not one["kept"]]
        if lost:
            ways = [f"{one['to']} via {one['via'] or one['card']}" for one in lost]
            yield make_boot_warning(
                "DG-266",
                f"{name} will not have its route to {join_names([one['to'] for one in lost])} after the next boot",
                name,
                seen=f"{'; '.join(ways)}, in no file that configures a card at boot",
                expected="in the files of who configures the card",
                fix=f"on {name}: write it there (fullmesh_links: routes, docs/links.md)",
            )


def rule_boot_mounts(look: ClusterEvidence) -> Iterator[Finding]:
    """What jobs read from is mounted again."""
    for name in look.nodes:
        held = get_next_boot(look, name)
        known = {one["point"] for one in held.get("mounts_kept", [])}
        now = held.get("mounts", [])
        roots = [one["point"].rstrip("/") + "/" for one in now if one["kind"] == AUTOFS]
        for one in now:
            by_itself = one["kind"] == AUTOFS or f"{one['point']}/".startswith(tuple(roots))
            if one["point"] != SHM and one["point"] not in known and not by_itself:
                yield make_boot_warning(
                    "DG-167",
                    f"{one['point']} of {name} will not be mounted after the next boot",
                    name,
                    seen=f"{one['what']} ({one['kind']}), in no fstab, mount unit or automounter",
                    expected=f"a line for {one['point']} in /etc/fstab",
                    fix=f"on {name}: findmnt -n -o SOURCE,TARGET,FSTYPE,OPTIONS {one['point']} shows what the line"
                    " needs; with _netdev,nofail",
                )


def rule_boot_shm(look: ClusterEvidence) -> Iterator[Finding]:
    """The shared memory keeps the size that somebody gave it; a container's is its host's business."""
    for name in look.nodes:
        held = get_next_boot(look, name)
        now = next((m["size"] for m in held.get("mounts", []) if m["point"] == SHM), 0)
        kept_lines = [m for m in held.get("mounts_kept", []) if m["point"] == SHM]
        later = kept_lines[-1]["size"] if kept_lines else 0
        if now and now != later and not held.get("container"):
            yield make_boot_warning(
                "DG-167",
                f"{SHM} of {name} will have another size after the next boot",
                name,
                seen=f"{now} bytes",
                expected=f"{later} bytes ({kept_lines[-1]['source']})"
                if later
                else "half of the memory: no file names a size",
                fix=f"on {name}: a line of /etc/fstab: tmpfs {SHM} tmpfs defaults,size={now} 0 0",
            )


def rule_boot_waits(look: ClusterEvidence) -> Iterator[Finding]:
    """The boot waits for nothing that is not there."""
    for name in look.nodes:
        for line in get_next_boot(look, name).get("mounts_kept", []):
            if line["waits"] and not line["mounted"]:
                yield make_boot_warning(
                    "DG-267",
                    f"the next boot of {name} waits for {line['point']}, which is not mounted now, and may end in"
                    " the emergency shell",
                    name,
                    seen=f"{line['what']} on {line['point']} in {line['source']}, not mounted",
                    expected="mounted now, or nofail in its options",
                    fix=f"on {name}: mount {line['point']}; or add nofail to the line",
                )


def rule_boot_selinux(look: ClusterEvidence) -> Iterator[Finding]:
    """SELinux comes back in the mode that it has."""
    for name in look.nodes:
        held = get_next_boot(look, name)
        now = look.survey(name).get("selinux", {}).get("mode", "")
        later = held.get("selinux_kept", "")
        forced = [
            one
            for one in held.get("kernel", {}).get("next_arguments", [])
            if one.startswith(("selinux=", "enforcing="))
        ]
        if now and later and now != later and not forced:
            yield make_boot_warning(
                "DG-168",
                f"SELinux of {name} is {now} and will be {later} after the next boot",
                name,
                seen=f"{now} now",
                expected=f"SELINUX={later} in /etc/selinux/config",
                fix=f"on {name}: SELINUX={now} there; or setenforce {int(later == 'enforcing')} and see what it denies",
            )


def rule_boot_kernel(look: ClusterEvidence) -> Iterator[Finding]:
    """The next boot starts a kernel that has the driver, with the arguments of today."""
    for name in look.nodes:
        held = get_next_boot(look, name).get("kernel")
        if not held:
            continue
        if held["driver"] and not held["driver_next"]:
            yield make_boot_warning(
                "DG-269",
                f"the kernel that {name} boots next, {held['next']}, has no NVIDIA module",
                name,
                seen=f"{held['running']} runs and has one; none below /lib/modules/{held['next']}",
                expected="nvidia.ko for the next kernel as well",
                fix=f"on {name}: dkms autoinstall -k {held['next']}, or the precompiled modules of that kernel; or boot"
                f" {held['running']} again",
            )
        gone, come = compare_boot_arguments(held)
        if gone or come:
            yield make_boot_warning(
                "DG-169",
                f"the next boot of {name} changes arguments of the kernel: {join_names([*gone, *come])}",
                name,
                seen=f"runs with {join_names(gone) if gone else 'none of these'}",
                expected=f"{held['source']} has {join_names(come) if come else 'none of these'}",
                fix=f"on {name}: grubby --update-kernel=ALL --args/--remove-args (EL), or /etc/default/grub and"
                " update-grub; or reboot now, and see",
            )


def compare_boot_arguments(held: KeptKernel) -> tuple[list[str], list[str]]:
    """Arguments that the next boot leaves out, and those that it adds."""

    def felt(arguments: Sequence[str]) -> list[str]:
        return [one for one in arguments if one.startswith(ARGUMENTS)]

    now, later = felt(held["arguments"]), felt(held["next_arguments"])
    return [one for one in now if one not in later], [one for one in later if one not in now]


def rule_boot_limits(look: ClusterEvidence) -> Iterator[Finding]:
    """systemd gives services the limits that its files say, and units run as their files are."""
    for name in look.nodes:
        held = get_next_boot(look, name)
        now, later = held.get("limits", {}), held.get("limits_kept", {})
        apart = [key for key in later if key in now and now[key] != later[key]["value"]]
        stale = [u["name"] for u in held.get("units", []) if u["stale"] and u["active"] == "active"]
        if apart or stale:
            said = [f"{key} is {now[key]}" for key in apart]
            files = [f"{later[key]['value']} in {later[key]['source']}" for key in apart]
            yield make_boot_warning(
                "DG-170",
                f"{join_names([*apart, *stale])} of {name} will be as the files say only after the next boot",
                name,
                seen="; ".join([*said, *(f"{one} runs from an older file" for one in stale)]),
                expected="; ".join(
                    [*files, *(["the files that are on the disk"] if stale else [])]
                ),
                fix=f"on {name}: systemctl {'daemon-reexec' if apart else 'daemon-reload'}, then restart"
                f" {' '.join(stale) if stale else 'what needs the limits'}",
            )


RULES: tuple[Rule, ...] = (
    rule_boot_settings,
    rule_boot_units,
    rule_boot_firewall,
    rule_boot_address,
    rule_boot_routes,
    rule_boot_mounts,
    rule_boot_shm,
    rule_boot_waits,
    rule_boot_selinux,
    rule_boot_kernel,
    rule_boot_limits,
)
CODES = frozenset(
    ["DG-163", "DG-164", "DG-165", "DG-166", "DG-266", "DG-167", "DG-267", "DG-168", "DG-169", "DG-269", "DG-170"]
)  # fmt: skip


def check_next_boot(look: ClusterEvidence) -> list[Finding]:
    """What the next boot changes, node by node."""
    return [finding for rule in RULES for finding in rule(look)]
