#!/usr/bin/python
"""Survey a node in one round trip, and compare it with its manifest."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Return the facts that the roles need about a node, and its drift, in one call
description:
  - Sets the few facts that the roles use, under Ansible's own names, and C(fullmesh) with Fullmesh's observations.
  - Compares the node with its saved manifest and describes every difference.
  - Changes nothing.
options:
  digest:
    description: The digest of this run's inputs for the node. Empty skips the comparison.
    type: str
    default: ""
  venv:
    description: The path of torch_runtime's environment. The free space there is measured.
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
  description: The roles' notes from the last run. Empty after drift, since the roles will repeat them.
  type: list
  returned: always
drift:
  description: One sentence for each difference from the manifest. Empty if there is none.
  type: list
  returned: always
pending:
  description: Changes that no run has confirmed yet, with the seconds until the node reverts them.
  type: list
  elements: dict
  returned: always
busy:
  description: Descriptions of programs that work on the node's packages or its first boot now.
  type: list
  returned: always
members:
  description: The node's record of the list of nodes, C(digest) and C(room). Empty if it was never configured.
  type: dict
  returned: always
resolved:
  description: Values that the last applied plan derived from the nodes. Empty if there was none.
  type: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh import node_facts


def main() -> None:
    """Read the parameters, compare, and return the result."""
    module = AnsibleModule(
        argument_spec={
            "digest": {"type": "str", "default": ""},
            "venv": {"type": "path", "default": "/opt/fullmesh/venv"},
        },
        supports_check_mode=True,
    )
    found = node_facts.answer_node_facts(module.params["digest"], module.params["venv"])
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
