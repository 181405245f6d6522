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
- name: Collect facts about the node
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
pending:
  description: Changes that no run has confirmed yet, with the seconds until the node reverts them.
  type: list
  elements: dict
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

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh import node_facts


def main() -> None:
    """Read, compare, return."""
    module = AnsibleModule(
        argument_spec={
            "digest": {"type": "str", "default": ""},
            "venv": {"type": "path", "default": "/opt/fullmesh/venv"},
        },
        supports_check_mode=True,
    )
    found = node_facts.answer(module.params["digest"], module.params["venv"])
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
