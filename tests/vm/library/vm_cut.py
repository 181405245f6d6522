"""Arm a transaction over /etc/firewalld, set up a firewall that blocks all connections, and end unconfirmed."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.transaction import engine

DOCUMENTATION = r"""
---
module: vm_cut
short_description: A firewall zone without ssh, armed to be undone, with a controller that never comes back
description:
  - What a wrong peer_firewall would do at its worst, through the project's own transaction. For the tests.
options:
  seconds:
    description: Until the timer would undo it; the tests reboot long before.
    type: int
    required: true
attributes:
  check_mode:
    description: None.
    support: none
author: [Fullmesh contributors]
"""

FOLDER = "/etc/firewalld"
NOBODY = (
    '<?xml version="1.0" encoding="utf-8"?>\n<zone target="DROP"><short>Public</short></zone>\n'
)


def list_firewalld_files() -> list[str]:
    """List the files of firewalld's configuration."""
    return [
        os.path.join(where, name) for where, _folders, names in os.walk(FOLDER) for name in names
    ]


def cut_access() -> list[str]:
    """Take every way in away; return what was removed."""
    gone = [path for path in list_firewalld_files() if path.endswith(".xml")]
    for path in gone:
        os.unlink(path)
    with open(FOLDER + "/zones/public.xml", "w") as stream:
        stream.write(NOBODY)
    # else the file system may forget the cut itself when the machine is reset
    os.sync()
    return gone


def main() -> None:
    """Arm, cut, answer while the old connection lives."""
    module = AnsibleModule(argument_spec={"seconds": {"type": "int", "required": True}})

    def run(command: list[str]) -> tuple[int, str]:
        rc, out, err = module.run_command(command)
        return int(rc), str(out) + str(err)

    paths = sorted({*list_firewalld_files(), FOLDER + "/zones/public.xml"})
    reload_it = ["firewall-cmd", "--reload"]
    try:
        engine.arm(run, "vm_cut", module.params["seconds"], paths, [reload_it], boot=[])
    except engine.RollbackError as exc:
        module.fail_json(msg=str(exc))
    gone = cut_access()
    rc, out = run(reload_it)
    module.exit_json(changed=True, removed=gone, rc=rc, said=out)


if __name__ == "__main__":
    main()
