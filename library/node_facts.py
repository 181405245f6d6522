#!/usr/bin/python
"""Observe a node in one round trip, and compare it with its manifest."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: What the roles need to know of a node, and its drift, in one call
description:
  - Sets the few facts that the roles use, under Ansible's own names, and C(fullmesh) with what Fullmesh looks at.
  - Compares the node with the manifest it kept when it last converged and names every difference.
  - Changes nothing.
options:
  digest:
    description: The digest of the inputs that this run has for the node. Empty skips the comparison.
    type: str
    default: ""
  venv:
    description: Where the role torch_runtime links its environment; the room beside it is looked at.
    type: path
    default: /opt/fullmesh/venv
author: [Fullmesh]
attributes:
  check_mode: {support: full, description: Only reads.}
"""

EXAMPLES = r"""
- name: Observe the node
  node_facts:
    digest: "{{ fullmesh_plan['digests'][inventory_hostname] }}"
"""

RETURN = r"""
ansible_facts:
  description: Ansible's own names for the platform, and C(fullmesh).
  type: dict
  returned: always
notes:
  description: What the roles had to say when the node converged; empty when it drifted, as they will say it again.
  type: list
  returned: always
drift:
  description: One sentence for each difference from the manifest; empty when the node is what it converged to.
  type: list
  returned: always
busy:
  description: Who works on the node's packages or its first boot at this moment, in words.
  type: list
  returned: always
members:
  description: What the node remembers of the list of nodes, C(digest) and C(room); empty where it never converged.
  type: dict
  returned: always
resolved:
  description: What the plan that the node converged to had worked out from the nodes; empty when it never did.
  type: dict
  returned: always
"""

import os
import platform
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.facts import accelerators, busy, node
from ansible.module_utils.fullmesh.state import manifest

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.schema.node import Observations


def observations(venv: str) -> Observations:
    """What Fullmesh looks at on a node; sizes in bytes, times in seconds; *venv*: where the environment is linked."""
    seen = accelerators.observe()
    return {
        "epoch": time.time(),
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


def facts(venv: str) -> dict[str, Any]:
    """The facts that the roles use, by Ansible's names."""
    system: dict[str, Any] = dict(node.parse_os_release(node.read("/etc/os-release")))
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
    return system


def main() -> None:
    """Read, compare, return."""
    module = AnsibleModule(
        argument_spec={
            "digest": {"type": "str", "default": ""},
            "venv": {"type": "path", "default": "/opt/fullmesh/venv"},
        },
        supports_check_mode=True,
    )
    digest = module.params["digest"]
    drift = manifest.drift(digest) if digest else []
    notes = manifest.notes() if digest and not drift else []
    module.exit_json(
        changed=False,
        ansible_facts=facts(module.params["venv"]),
        drift=drift,
        notes=notes,
        resolved=manifest.resolved(),
        members=manifest.members(),
        busy=busy.busy(),
    )


if __name__ == "__main__":
    main()
