"""Find programs and filters that see packets outside of the packet filter.

These are XDP and tc on an interface, and BPF on cgroups.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from ..foreign_text import list_objects, parse_tool_json
from ..tools import ip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..schema.survey import PacketHook

SECONDS = 5
SIDES = ("ingress", "egress")
# Attach types of programs that see a job's packets or its calls of connect() and bind(): bpftool-cgroup(8).
OF_JOBS = (
    "ingress",
    "egress",
    "connect",
    "bind",
    "sock_create",
    "connect4",
    "connect6",
    "bind4",
    "bind6",
)
NAMED = ("cgroup_inet_", "cgroup_inet4_", "cgroup_inet6_", "cgroup_")
SYSTEMD = "sd_"  # its own programs (IPAddressDeny= of a unit, devices) have names that begin so
KEPT = 50


def query_json_tool(*command: str) -> Any:
    """Return a tool's JSON output, or None if it is missing or prints something else."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
        )
        return parse_tool_json(done.stdout.decode("utf-8", "replace") or "[]")
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def describe_bpf_program(said: dict[str, Any]) -> str:
    """Describe a BPF program by name and id."""
    return "{} (id {})".format(said.get("name") or "a program without a name", said.get("id", "?"))


def parse_xdp_hooks(said: Any) -> Iterator[PacketHook]:
    """Yield the XDP programs in the output of `ip.build_link_command`."""
    for link in list_objects(said):
        xdp = link.get("xdp")
        if not isinstance(xdp, dict):
            continue
        for one in list_objects(xdp.get("attached")) or [xdp]:
            if isinstance(one.get("prog"), dict):
                name = str(link.get("ifname", ""))
                yield {"at": "xdp", "card": name, "what": describe_bpf_program(one["prog"])}


def parse_tc_hooks(said: Any, interface: str, side: str) -> Iterator[PacketHook]:
    """Yield the filters in ``tc -j filter show dev NIC ingress``, one for each that has an effect."""
    for one in list_objects(said):
        options = one.get("options")
        if not isinstance(options, dict):
            continue
        bpf = options.get("bpf_name")
        kind = str(one.get("kind", "?"))
        actions = [
            str(
                action["control_action"].get("type", "")
                if isinstance(action.get("control_action"), dict)
                else action.get("kind", "")
            )
            for action in list_objects(options.get("actions"))
        ]
        if bpf or actions:
            done = ", ".join(filter(None, [str(bpf or ""), *actions]))
            yield {"at": "tc " + side, "card": interface, "what": f"filter {kind}: {done}"}


def parse_tcx_hooks(said: Any, interface: str) -> Iterator[PacketHook]:
    """Yield the programs of tcx, which tc itself does not list, from ``bpftool -j net show dev NIC``."""
    for held in list_objects(said):
        for one in list_objects(held.get("tc")):
            kind = str(one.get("kind", ""))
            side = next((side for side in SIDES if side in kind), "")
            if one.get("devname") == interface and kind.startswith("tcx") and side:
                yield {"at": "tc " + side, "card": interface, "what": describe_bpf_program(one)}


def parse_cgroup_hooks(said: Any) -> Iterator[PacketHook]:
    """Yield the programs on cgroups from ``bpftool -j cgroup tree``, without systemd's own."""
    for group in list_objects(said):
        for one in list_objects(group.get("programs")):
            kind = str(one.get("attach_type", ""))
            prefix = next((prefix for prefix in NAMED if kind.startswith(prefix)), "")
            kind = kind[len(prefix) :]
            if kind in OF_JOBS and not str(one.get("name", "")).startswith(SYSTEMD):
                where = str(group.get("cgroup", ""))
                yield {
                    "at": "cgroup " + kind,
                    "card": "",
                    "what": describe_bpf_program(one) + " at " + where,
                }


def survey_hooks(interface: str) -> list[PacketHook]:
    """Return all hooks on an interface and on cgroups."""
    found: list[PacketHook] = []
    if interface:
        found += parse_xdp_hooks(query_json_tool(*ip.build_link_command(interface)))
        for side in SIDES:
            found += parse_tc_hooks(
                query_json_tool("tc", "-j", "filter", "show", "dev", interface, side),
                interface,
                side,
            )
        found += parse_tcx_hooks(
            query_json_tool("bpftool", "-j", "net", "show", "dev", interface), interface
        )
    found += parse_cgroup_hooks(query_json_tool("bpftool", "-j", "cgroup", "tree"))
    return found[:KEPT]
