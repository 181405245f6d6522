# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Wait until no change of this node waits for its confirmation, so that a revert cannot overwrite later changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_merged_runner, make_split_runner
from ansible.module_utils.fullmesh.transaction import engine

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.commands import Runner


DOCUMENTATION = r"""
---
module: pending_change
short_description: Wait for the end of an unconfirmed change
description:
  - A killed run leaves the node with a change that will soon be reverted, with all its files and units. The revert
    would overwrite changes that another program makes to the same files meanwhile.
  - The node's own timer ends the change. If the timer is gone, this module ends it.
  - Changes nothing itself. The connection may be cut when a network change is reverted.
attributes:
  check_mode:
    description: Does not wait, and reports the changes.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Wait until no change is pending
  pending_change:
"""

RETURN = r"""
changes:
  description: The names of the changes that it waited for.
  type: list
  elements: str
  returned: always
left:
  description: Changes that have not ended.
  type: list
  elements: str
  returned: always
"""


def list_pending_names() -> list[str]:
    """Return the changes that have not ended."""
    return [change["name"] for change in engine.list_pending_changes()]


def wait_for_change_end(run: Runner, name: str) -> None:
    """Wait for the timer of one change, or end it if there is no timer."""
    directory = engine.folder(name)
    journal: engine.Journal = engine.read_json(directory + "/journal.json")
    left = engine.seconds_left(journal) if journal else 0.0
    end = time.monotonic() + left + engine.STALE_SECONDS
    while engine.state_of(directory) == "armed" and time.monotonic() < end:
        time.sleep(engine.POLL_SECONDS)
    engine.undone(run, name, "no run has confirmed it, and its timer is gone")


def main() -> None:
    """Read the parameters, wait and return the result."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)

    run = make_merged_runner(make_split_runner(module))
    found = list_pending_names()
    for name in found if not module.check_mode else ():
        wait_for_change_end(run, name)
    left = list_pending_names()
    if left and not module.check_mode:
        module.fail_json(
            msg=f"[TX-107] The change {left[0]!r} of this node has not ended. Fix: reboot the node, "
            f"which ends it. Check: {engine.STORE}/log on the node."
        )
    module.exit_json(changed=False, changes=found, left=left)


if __name__ == "__main__":
    main()
