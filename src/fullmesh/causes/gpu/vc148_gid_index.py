"""NCCL_IB_GID_INDEX points to an entry of a RoCE port that is empty, link-local or RoCE v1

The GID table of a RoCE port follows the addresses of its interface. The entry of the IPv4 address
can move after a reboot or with another address, and it differs between ports. A fixed index may
then point to an empty entry, to fe80:: or to RoCE v1. NCCL fails with `ibv_modify_qp failed with 61
No data available`, or hangs. A value that is not a number counts as 0.

**Prove:** show_gids && grep -r NCCL_IB /etc/nccl.conf /etc/fullmesh/env

**Fix:** Remove NCCL_IB_GID_INDEX: NCCL 2.21 and newer choose the entry of each port. On an IPv6
network set NCCL_IB_ADDR_FAMILY=AF_INET6.

**Source:** NCCL 2.30, net_ib/connect.cc and misc/param.cc, and nccl#1333
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.observed.survey import JobVariable, RdmaPort
from fullmesh.result.findings import ERROR, WARNING, Finding
from fullmesh.verify.cards import OURS, has_gpus
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.nccl_ways import format_hca_port, is_port_selected, list_active_rdma_ports

PIN, CARDS, VERSION = "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_ROCE_VERSION_NUM"
ROCE = "Ethernet"  # NCCL reads the variable for this link layer only (net_ib/connect.cc)
NUMBER = re.compile(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|0([0-7]*)|([1-9][0-9]*))")


def parse_gid_index(value: str) -> int | None:
    """Read the variable as NCCL does (strtoll, misc/param.cc): None leaves the choice to NCCL.

    An empty value counts as not set. A value that is not a number (with quotes, or a word) counts as 0.
    """
    if not value:
        return None
    match = NUMBER.match(value)
    if match is None:
        return 0
    sign, base16, base8, base10 = match.groups()
    index = (
        int(base16, 16) if base16 else int(base8 or "0", 8) if base8 is not None else int(base10)
    )
    return None if sign == "-" and index else index


def describe_bad_entry(port: RdmaPort, index: int, version: str) -> str:
    """Describe the problem of an entry in a port's GID table, or return "" if NCCL may use it."""
    entry = next((gid for gid in port["gids"] if gid["index"] == index), None)
    if entry is None:
        return "is empty"
    if "v1" in entry["type"] and version.strip() != "1":
        return f"is of type {entry['type']}"
    if ipaddress.IPv6Address(entry["gid"]).is_link_local:
        return f"is link-local ({entry['gid']})"
    return ""


def find_gid_pins(seen: ClusterObservations, name: str) -> list[JobVariable]:
    """Return the different values that jobs on a node get, each with its first source."""
    survey = seen.survey(name)
    found = []
    if PIN in (values := survey.get("environment", {}).get("values", {})):
        found.append(values[PIN])
    if PIN in (unit := survey.get("job_unit", {}).get("environment", {})):
        found.append({"value": unit[PIN], "source": "the unit fullmesh-job@"})
    found += [
        {"value": job["environment"][PIN], "source": f"the environment of process {job['pid']}"}
        for job in survey.get("jobs", [])
        if PIN in job["environment"]
    ]
    first = {one["value"]: one for one in reversed(found)}
    return list(first.values())


def suggest_pin_fix(seen: ClusterObservations, name: str, source: str) -> str:
    """Suggest the place from which to remove the variable."""
    if source == OURS:
        return f"remove {PIN} from cluster_env_extra in the inventory, then {seen.apply('launch')}"
    return f"on {name}: remove {PIN} from {source}"


def find_bad_gid_pins(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a pinned entry exists and suits RoCE v2 on every port that NCCL may use.

    The table changes with the addresses.
    """
    for name in seen.plan["nodes"]:
        values = seen.survey(name).get("environment", {}).get("values", {})
        hca, version = (values.get(one, {"value": ""})["value"] for one in (CARDS, VERSION))
        ports = [
            port
            for port in list_active_rdma_ports(seen, name)
            if port["layer"] == ROCE and (not hca or is_port_selected(hca, port))
        ]
        for pin in find_gid_pins(seen, name):
            index = parse_gid_index(pin["value"])
            for port in ports if index is not None else []:
                wrong = describe_bad_entry(port, index or 0, version)
                if wrong:
                    yield make_pin_finding(seen, name, pin, port, wrong)


def make_pin_finding(
    seen: ClusterObservations, name: str, pin: JobVariable, port: RdmaPort, wrong: str
) -> Finding:
    """Make the finding for a pinned entry that NCCL or its peers cannot use."""
    index = parse_gid_index(pin["value"])
    suited = [
        str(gid["index"]) for gid in port["gids"] if not describe_bad_entry(port, gid["index"], "")
    ]
    return Finding(
        "VC-148",
        "L1",
        f"{PIN}={pin['value']} on {name} makes NCCL use entry {index} of {format_hca_port(port)}, which {wrong}",
        node=name,
        seen=f"{PIN}={pin['value']} from {pin['source']}; {format_hca_port(port)} entry {index} {wrong}",
        expected=f"not set: NCCL 2.21 and newer choose the entry (here {' or '.join(suited) or 'none fits'})",
        fix=suggest_pin_fix(seen, name, pin["source"]),
        severity=ERROR if has_gpus(seen, name) and wrong == "is empty" else WARNING,
    )


CAUSE = Cause(
    "VC-148",
    __doc__,
    find=find_bad_gid_pins,
    weight=350,
    explains=(Explains(("VC-712", "VC-714", "VC-720")),),
    cases=(
        CauseCase(
            "gid-pin",
            "NCCL_IB_GID_INDEX=3, and the port has no entry 3",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
