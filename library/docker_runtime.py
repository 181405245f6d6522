# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Add or remove NVIDIA's runtime in docker's settings."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.docker_runtime import DockerError, configure_docker_runtime
from ansible.module_utils.fullmesh.state.errors import UndoError

DOCUMENTATION = r"""
---
module: docker_runtime
short_description: Add or remove NVIDIA's runtime in docker's settings
description:
  - Changes one entry of C(/etc/docker/daemon.json), C(runtimes.nvidia). Other entries stay, and also an entry of that
    name that others made.
  - O(state=absent) restores the file byte for byte as it was before role container_toolkit changed it, if nothing else
    has changed since.
  - Docker is restarted if it runs without a container. With running containers it is not restarted.
options:
  state:
    description: Whether the entry should exist.
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
  description: The number of running containers. The new settings take effect after they have ended.
  type: int
  returned: success
"""


def main() -> None:
    """Read the parameter, change, and return the result."""
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
