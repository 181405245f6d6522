# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What the roles need to know of a node, and its drift, in one answer. Stdlib only."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from typing import TYPE_CHECKING, cast

from ..state import manifest
from . import accelerators, busy, node

if TYPE_CHECKING:
    from ..schema.node import Facts, NodeFacts, Observations, PendingChange


def observations(venv: str) -> Observations:
    """What Fullmesh looks at on a node; sizes in bytes, times in seconds; *venv*: where the environment is linked."""
    seen = accelerators.observe()
    return {
        "epoch": time.time(),
        "boot": node.read_boot_mark(),
        "root": os.geteuid() == 0,
        "ssh_connection": os.environ.get("SSH_CONNECTION", ""),
        "interfaces": node.interfaces(),
        "listening_ports": node.listening_ports(),
        "free_bytes": {
            path: node.free_bytes(path) for path in (os.path.dirname(venv), "/var/lib/fullmesh")
        },
        "venv": venv,
        "torch_there": os.path.exists(venv + "/fullmesh.json"),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "cpus": os.cpu_count() or 1,
        "container": node.container(),
        "gpus": seen["nvidia_shown"],
        "accelerators": seen,
        "hcas": node.hca_names(),
        "rdma": node.rdma_ports(),
        "selinux": manifest.selinux_state({"mode": ""}).get("mode", ""),
        "proxy": {
            name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")
        },
        "systemd": os.path.isdir("/run/systemd/system"),
    }


def facts(venv: str) -> Facts:
    """The facts that the roles use, by Ansible's names."""
    system: dict[str, object] = dict(node.parse_os_release(node.read("/etc/os-release")))
    system.update(
        {
            "pkg_mgr": node.package_manager(),
            "service_mgr": "systemd" if os.path.isdir("/run/systemd/system") else "",
            "hostname": socket.gethostname().split(".")[0],
            "nodename": socket.gethostname(),
            "fqdn": node.full_name(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "python": {
                "executable": sys.executable,
                "version": {"major": sys.version_info[0], "minor": sys.version_info[1]},
            },
            "python_version": platform.python_version(),
            "fullmesh": observations(venv),
        }
    )
    return cast("Facts", system)


def list_pending_changes() -> list[PendingChange]:
    """Return the transactions that have yet to end. The engine is loaded on nodes only that have a transaction."""
    if not node.has_transactions():
        return []
    from ..transaction import engine  # noqa: PLC0415 (a tenth of this question's time, and rarely needed)

    return engine.list_pending_changes()


def answer(digest: str = "", venv: str = "/opt/fullmesh/venv") -> NodeFacts:
    """All of it; *digest*: of the inputs that a run has for the node, empty skips the comparison."""
    drift = manifest.drift(digest) if digest else []
    return {
        "ansible_facts": facts(venv),
        "drift": drift,
        "notes": cast("list[dict[str, str]]", manifest.notes() if digest and not drift else []),
        "resolved": manifest.resolved(),
        "members": manifest.members(),
        "busy": busy.busy(),
        "pending": list_pending_changes(),
    }
