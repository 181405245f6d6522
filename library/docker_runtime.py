# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""NVIDIA's runtime in docker's settings."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.docker_runtime import DockerError, configure_docker_runtime
from ansible.module_utils.fullmesh.state.errors import UndoError

DOCUMENTATION = r"""
---
module: docker_runtime
short_description: Enter NVIDIA's runtime in docker's settings, or take it out
description:
  - Changes one entry of C(/etc/docker/daemon.json), C(runtimes.nvidia). All else in there stays, and an entry of that
    name that somebody has made.
  - With O(state=absent) the file is byte for byte what role container_toolkit remembers, where nobody changed anything
    else in it since.
  - Docker is started anew where it runs without a container; with one it is left alone.
options:
  state:
    description: Whether the entry shall be there.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Writes nothing.
    support: full
  diff_mode:
    description: The file.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Add NVIDIA's runtime to docker
  docker_runtime:
  register: __container_toolkit_entered
"""

RETURN = r"""
docker:
  description: Docker is installed.
  type: bool
  returned: success
waiting:
  description: How many containers run, for whose end the new settings wait.
  type: int
  returned: success
"""


def main() -> None:
    """Read the parameter, change, answer."""
    module = AnsibleModule(
        argument_spec={"state": {"choices": ["present", "absent"], "default": "present"}},
        supports_check_mode=True,
    )
    present = module.params["state"] == "present"
    try:
        module.exit_json(
            **configure_docker_runtime(make_split_runner(module), present, module.check_mode)
        )
    except (DockerError, UndoError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
