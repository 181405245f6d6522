# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the last calls of the verification on a node: end the listeners, start a real job, collect its results."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.job import control_test_job
from ansible.module_utils.fullmesh.schema.ladder_arguments import LADDER_GLOO

DOCUMENTATION = r"""
---
module: ladder_gloo
short_description: Start the ranks of a test job on this node, detached, and collect their results
description:
  - V(started) ends the listeners of ladder_node, starts the ranks if there are any, and returns at once.
  - V(collected) waits up to O(wait) seconds for the ranks and returns their results. After their end, nothing is left
    on the node. A process on the node kills ranks that hang at O(deadline).
  - V(stopped) asks that process to end the ranks now, because a rank of another node has failed.
  - The ranks run as an unused account without rights, or as the unit of jobs. Their output is not trusted.
options:
  run:
    description: Name of this verification.
    type: str
    required: true
  state:
    description: The action of the module.
    type: str
    choices: [started, stopped, collected]
    required: true
  ranks:
    description: Global ranks of this node, in the order of their local ranks.
    type: list
    elements: int
    default: []
  python:
    description: Interpreter of the jobs.
    type: str
    default: ""
  script:
    description: Text of the rank's program.
    type: str
    default: ""
  modules:
    description: Texts of the files that the program imports, by name.
    type: dict
    default: {}
  environment:
    description: Environment of the ranks.
    type: dict
    default: {}
  settings:
    description: Settings of the rank's program.
    type: dict
    default: {}
  deadline:
    description: Seconds until the ranks are killed.
    type: int
    default: 60
  brief:
    description: With V(started), return only the handshakes with the peers of O(about).
    type: bool
    default: false
  about:
    description: Peers, name to address.
    type: dict
    default: {}
  wait:
    description: Seconds to wait for the end of the ranks.
    type: float
    default: 5.0
  attached:
    description: Set by ask_nodes if the controller is at the other end of standard input and output for the whole time.
    type: bool
    default: false
  keep:
    description: With V(collected), keep the files that another job of the same run needs.
    type: bool
    default: false
attributes:
  check_mode:
    description: Works as usual, since nothing lasting is left on the node.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Start the ranks
  ladder_gloo:
    run: 20260102T030405
    state: started
    ranks: [0, 1]
    python: /opt/fullmesh/venv/bin/python
    script: "{{ lookup('ansible.builtin.file', 'gloo_ladder.py') }}"

- name: Collect the results of the ranks
  ladder_gloo:
    run: 20260102T030405
    state: collected
  register: __gloo
  until: __gloo['done']
  retries: 20
  delay: 1
"""

RETURN = r"""
listeners:
  description: >-
    The listeners' observations, C(proved) probes per node, C(refused) and C(strangers), and the handshakes on the
    wire, C(asked) and C(answered), as ports per pair of addresses.
  type: dict
  returned: state is started, and listeners were there
names:
  description: >-
    What ladder_node found in the background, C(names) and C(survey), as it would be in its C(facts).
  type: dict
  returned: state is started, and ladder_node was called with C(beside)
done:
  description: All ranks have ended or were killed.
  type: bool
  returned: state is collected
ranks:
  description: Events and the end of the output of every rank.
  type: dict
  returned: state is collected
ended:
  description: Exit codes and times of ranks, those killed at the deadline, seconds, the node's load.
  type: dict
  returned: state is collected
broken:
  description: Seconds since the first rank of this node failed.
  type: float
  returned: state is collected, and a rank failed
why:
  description: Which rank failed first, and why.
  type: str
  returned: state is collected, and a rank failed
doing:
  description: The step each rank is at.
  type: dict
  returned: state is collected
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=LADDER_GLOO, supports_check_mode=True)
    said = control_test_job(**module.params)
    # Ansible would send the arguments back, which are the largest part by far and the controller's own.
    module.exit_json(changed=False, invocation={}, **said)


if __name__ == "__main__":
    main()
