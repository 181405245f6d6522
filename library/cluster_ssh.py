# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage the account and the key that nodes use to log in to each other."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.account import AccountError
from ansible.module_utils.fullmesh.files import read_text_file
from ansible.module_utils.fullmesh.ssh_keys import (
    FOLDER,
    OWN_KEY,
    SshError,
    check_peer_login,
    install_ssh_keys,
    read_host_keys,
    remove_ssh_keys,
)
from ansible.module_utils.fullmesh.state.errors import UndoError

DOCUMENTATION = r"""
---
module: cluster_ssh
short_description: Manage the account and the key for logins between nodes
description:
  - Creates the account if it is missing, writes key, known_hosts and ssh's settings into a folder of Fullmesh, and adds
    one line to the account's authorized_keys. Lines and files of others are never changed.
  - A process with the account's rights reads and writes the account's folder. A C(.ssh) or C(authorized_keys) that is a
    symbolic link is refused.
  - Then logs in to another node, to verify the result.
options:
  state:
    description:
      - V(read) only reads, V(present) writes everything, V(tried) logs in to O(peer), V(absent) removes everything.
    type: str
    choices: [read, present, tried, absent]
    required: true
  user:
    description: The account.
    type: str
    default: ''
  private_key:
    description: The cluster's private key.
    type: str
    default: ''
  authorized:
    description: The line for authorized_keys.
    type: str
    default: ''
  known_hosts:
    description: The whole file.
    type: str
    default: ''
  config:
    description: The whole file.
    type: str
    default: ''
  peer:
    description: The address of the node to log in to.
    type: str
    default: ''
attributes:
  check_mode:
    description: Reports the changes, on a new machine too. Does not log in.
    support: full
  diff_mode:
    description: Names of the files that differ, and Fullmesh's own text unless it is secret. No lines of others.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Read the keys of every node
  cluster_ssh:
    state: read
  no_log: true
"""

RETURN = r"""
private_key:
  description: The node's key, or empty. A secret.
  type: str
  returned: with state=read
host_keys:
  description: The public lines of sshd's keys.
  type: list
  elements: str
  returned: with state=read
left:
  description: The account's folder, if it was left because it has files of others.
  type: str
  returned: with state=absent
"""


def main() -> None:
    """Read the parameters, run the state, return the result."""
    texts = ("user", "authorized", "known_hosts", "config", "peer")
    spec: dict[str, object] = {name: {"type": "str", "default": ""} for name in texts}
    spec["private_key"] = {"type": "str", "default": "", "no_log": True}
    spec["state"] = {
        "type": "str",
        "choices": ["read", "present", "tried", "absent"],
        "required": True,
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    try:
        if params["state"] == "read":
            key = read_text_file(os.path.join(FOLDER, OWN_KEY))
            module.exit_json(changed=False, private_key=key, host_keys=read_host_keys())
        if params["state"] == "present":
            module.exit_json(**install_ssh_keys(params, module.check_mode))
        if params["state"] == "absent":
            module.exit_json(**remove_ssh_keys(module.check_mode))
        if not module.check_mode:
            check_peer_login(params)
    except (SshError, AccountError, UndoError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"[NS-103] The account's files cannot be written: {error}. Fix: repair that path and run it again."
        )
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
