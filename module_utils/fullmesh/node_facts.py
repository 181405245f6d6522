# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Collect the facts that roles need about a node, and its drift, in one answer. Standard library only."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from typing import TYPE_CHECKING, cast

from . import manifest
from .facts import accelerators, busy, node

if TYPE_CHECKING:
    from .schema.node import Facts, NodeFacts, Observations, PendingChange


def observe_node_facts(venv: str) -> Observations:
    """Return observations of the node, sizes in bytes, times in seconds. *venv*: the link of the jobs' environment."""
    seen = accelerators.observe_accelerators()
    return {
        "epoch": time.time(),
        "boot": node.read_boot_mark(),
        "root": os.geteuid() == 0,
        "ssh_connection": os.environ.get("SSH_CONNECTION", ""),
        "interfaces": node.list_interfaces(),
        "listening_ports": node.list_listening_ports(),
        "free_bytes": {
            path: node.measure_free_bytes(path)
            for path in (os.path.dirname(venv), "/var/lib/fullmesh")
        },
        "venv": venv,
        "torch_there": os.path.exists(venv + "/fullmesh.json"),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "cpus": os.cpu_count() or 1,
        "container": node.detect_container(),
        "gpus": seen["nvidia_shown"],
        "accelerators": seen,
        "hcas": node.list_hcas(),
        "rdma": node.list_rdma_ports(),
        "selinux": manifest.read_selinux_mode({"mode": ""}).get("mode", ""),
        "proxy": {
            name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")
        },
        "systemd": os.path.isdir("/run/systemd/system"),
    }


def collect_facts(venv: str) -> Facts:
    """Return the facts that the roles use, by Ansible's names."""
    system: dict[str, object] = dict(node.parse_os_release(node.read_stripped("/etc/os-release")))
    system.update(
        {
            "pkg_mgr": node.find_package_manager(),
            "service_mgr": "systemd" if os.path.isdir("/run/systemd/system") else "",
            "hostname": socket.gethostname().split(".")[0],
            "nodename": socket.gethostname(),
            "fqdn": node.find_full_name(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "python": {
                "executable": sys.executable,
                "version": {"major": sys.version_info[0], "minor": sys.version_info[1]},
            },
            "python_version": platform.python_version(),
            "fullmesh": observe_node_facts(venv),
        }
    )
    return cast("Facts", system)


def load_pending_changes() -> list[PendingChange]:
    """Return the unfinished transactions. The engine is only loaded on nodes with a transaction."""
    if not node.has_transactions():
        return []
    from .transaction import engine  # noqa: PLC0415 (a tenth of this question's time, and rarely needed)

    return engine.list_pending_changes()


def answer_node_facts(digest: str = "", venv: str = "/opt/fullmesh/venv") -> NodeFacts:
    """Return all facts. *digest*: of a run's inputs for the node. Empty skips the comparison."""
    drift = manifest.find_drift(digest) if digest else []
    return {
        "ansible_facts": collect_facts(venv),
        "drift": drift,
        "notes": cast(
            "list[dict[str, str]]", manifest.load_manifest_notes() if digest and not drift else []
        ),
        "resolved": manifest.load_auto_settings(),
        "members": manifest.load_membership(),
        "busy": busy.describe_busy_node(),
        "pending": load_pending_changes(),
    }
