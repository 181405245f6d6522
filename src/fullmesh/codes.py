"""Collect every error code of the project, and render the site's page of them."""

from __future__ import annotations

import importlib
import importlib.util
import re

from fullmesh.causes.engine import collect_meanings

CODE = re.compile(r"\b[A-Z]{2}-[1-9][0-9]{2}\b")
# prefix -> (module with its CODES, title). The codes of causes are in their own modules.
OWNERS = {
    "CL": ("fullmesh.cli", "the command line"),
    "IN": ("fullmesh.verbs.init", "init"),
    "DR": ("fullmesh.verbs.doctor", "doctor"),
    "ST": ("fullmesh.cluster_status", "status"),
    "LB": ("devtools.lab.errors", "the lab"),
    "PL": ("fullmesh.model.plan", "the cluster plan"),
    "PR": ("fullmesh.roles.preflight", "preflight"),
    "AK": ("fullmesh.ask.program", "queries of all nodes at once"),
    "IP": ("fullmesh.roles.static_ip", "role static_ip"),
    "NR": ("fullmesh.roles.name_resolution", "role name_resolution"),
    "TS": ("fullmesh.roles.time_sync", "role time_sync"),
    "PF": ("fullmesh.roles.peer_firewall", "role peer_firewall"),
    "SE": ("fullmesh.roles.selinux_mode", "role selinux_mode"),
    "KT": ("fullmesh.roles.kernel_tuning", "role kernel_tuning"),
    "NC": ("fullmesh.roles.nccl", "role nccl"),
    "TR": ("fullmesh.roles.torch_runtime", "role torch_runtime"),
    "ND": ("fullmesh.roles.nvidia_driver", "role nvidia_driver"),
    "CT": ("fullmesh.roles.container_toolkit", "role container_toolkit"),
    "BN": ("fullmesh.roles.bundle", "bundles (./fullmesh bundle)"),
    "CE": ("fullmesh.roles.cluster_env", "role cluster_env"),
    "MT": ("fullmesh.roles.monitoring_tools", "role monitoring_tools"),
    "NH": ("fullmesh.roles.node_health", "role node_health"),
    "NS": ("fullmesh.roles.node_ssh", "role node_ssh"),
    "LA": ("fullmesh.roles.launchers", "role launchers"),
    "WG": ("fullmesh.roles.wireguard", "role wireguard"),
    "VC": ("", "role verify_cluster"),
    "DG": ("", "diagnosis (./fullmesh diagnose)"),
    "EC": (
        "fullmesh.ec2.security_group",
        "role ec2_security_group, and problems in EC2",
    ),
    "EF": ("", "EFA on the nodes"),
    "UN": ("fullmesh.roles.undo_point", "undo"),
    "TX": ("fullmesh.transaction", "changes that undo themselves (transactions)"),
    "WA": ("fullmesh.verbs.watch", "watch"),
    "HG": ("", "jobs that hang (explain-log of records)"),
    "LG": ("", "causes in logs (explain-log)"),
    "MF": ("", "the manifest"),
    "HC": ("", "the check of a node (fullmesh-check)"),
}
# raised on nodes, which do not have this package
NODE_CODES = {
    "MF-101": "A node has drifted before its manifest is written",
    "MF-103": "The node restarted during the run, so it may have lost changes of the roles",
    "MF-102": "A role owns something of a kind that the manifest does not know",
    "HC-101": "A GPU that the last run saw is not on the PCI bus",
    "HC-102": "A GPU or its driver does not answer",
    "HC-103": "A GPU has uncorrectable memory errors, or remaps a row of its memory",
    "HC-104": "The loaded NVIDIA driver differs from the installed one",
    "HC-105": "A GPU has fewer PCIe lanes than its slot",
    "HC-106": "The node has NVSwitches and no active fabric manager",
    "HC-107": "The kernel does not answer a program",
    "HC-108": "The NVIDIA driver reported an error after which a GPU needs a reset",
    "HC-111": "The interface of the cluster address has no link",
    "HC-112": "No interface has the cluster address",
    "HC-113": "The interface of the cluster address runs at half duplex",
    "HC-114": "An RDMA port of the cluster interface is not active",
    "HC-121": "A limit of the kernel on open files or threads is nearly reached",
    "HC-122": "The node has little memory left",
    "HC-131": "The clock is not synchronized",
    "HC-132": "The clock is off",
    "HC-141": "A local file system is full",
    "HC-142": "A local file system is read-only",
    "HC-143": "The server of a mount does not answer",
    "HC-151": "The node differs from its manifest",
    "HC-161": "A peer of the job cannot be reached",
    "HC-162": "Large packets to a peer are lost",
    "HC-171": "A device computes slower than its peers, or than in earlier runs",
    "HC-172": "A node exchanges data slower than its peers, or than in earlier runs",
    "HC-173": "A device or a transfer gives wrong results",
    "MF-180": "A node that was never configured should receive the list of nodes",
}


def collect_codes() -> dict[str, str]:
    """Map each code to its meaning, sorted."""
    result = dict(NODE_CODES)
    for prefix, (module, _title) in OWNERS.items():
        result |= collect_meanings(prefix)
        # an installed package has no developers' tools
        if module and importlib.util.find_spec(module.partition(".")[0]):
            result |= importlib.import_module(module).CODES
    return dict(sorted(result.items()))


PREFIXES = frozenset(OWNERS)


def render_codes_page() -> str:
    """Return docs/errors.md of the site."""
    codes = collect_codes()
    lines = [
        "# Error codes",
        "",
        "The message of an error has the value that was seen and the next step. The README of the role has more.",
    ]
    for prefix, (_module, title) in OWNERS.items():
        own = {code: text for code, text in codes.items() if code.startswith(prefix)}
        lines += ["", f"## {prefix}: {title}", "", "| code | meaning |", "|---|---|"]
        lines += [f"| {code} | {text} |" for code, text in own.items()]
    return "\n".join(lines) + "\n"
