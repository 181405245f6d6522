#!/usr/bin/python
"""Save on the node the state that a run applied."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_manifest
short_description: Write the manifest that the next run compares with
description:
  - Observes everything that the roles manage and saves it with checksums in one file.
  - Refuses to write the manifest if a value differs from the one that a role reported.
options:
  digest:
    description: The digest of the run's inputs. Needed with V(present).
    type: str
  owned:
    description: Role name to the items that it manages, see docs/architecture.md. Needed with V(present).
    type: dict
  notes:
    description: The roles' notes about the node, kept for the reports of later runs that skip the roles.
    type: list
    elements: dict
    default: []
  resolved:
    description: Values that the plan derived from the nodes (ranks and accelerators with V(auto)), saved unchanged.
    type: dict
    default: {}
  members:
    description: The node's record of the list of nodes, saved unchanged.
    type: dict
    default: {}
  ran:
    description:
      - Which roles the run configured. V(some) and V(most) leave the entries of the other roles as they are.
      - If the inputs changed, or the node had no manifest, the next run configures the whole node.
      - With V(some), a node without a manifest gets none.
    type: str
    choices: [all, most, some]
    default: all
  boot:
    description: The node's boot id when the run began (C(boot) of node_facts), to detect a restart.
    type: str
    default: ""
  state:
    description: Whether the manifest is kept or removed. An undo removes it first.
    type: str
    choices: [present, absent]
    default: present
author: [Fullmesh]
attributes:
  check_mode: {support: full, description: Reports whether it would write.}
"""

EXAMPLES = r"""
- name: Save the node's manifest
  node_manifest:
    digest: "{{ fullmesh_plan['digests'][inventory_hostname] }}"
    owned: "{{ fullmesh_owned }}"
"""

RETURN = r"""
path:
  description: The manifest's path on the node.
  type: str
  returned: always
untrue:
  description: Differences from the roles' reports. The module fails if there are any.
  type: list
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh import manifest
from ansible.module_utils.fullmesh.facts import accelerators, node


def describe_missing_state(owned: manifest.OwnedItems, state: manifest.State) -> list[str]:
    """Return sentences about reported values that differ from the present ones."""
    wrong = []
    for path, value in state["file"].items():
        if value == "absent" or value.startswith("unreadable"):
            wrong.append(f"file {path} is {value}")
    for key, value in owned["sysctls"].items():
        if " ".join(str(value).split()) != state["sysctl"][key]:
            wrong.append("sysctl {} is {}, not {}".format(key, state["sysctl"][key], value))
    for unit, value in owned["services"].items():
        if value != state["service"][unit]:
            wrong.append("service {} is {}, not {}".format(unit, state["service"][unit], value))
    for name, value in owned["packages"].items():
        seen = state["package"][name]
        if not seen or (value and value != seen):
            wrong.append(
                "package {} is {}, not {}".format(name, seen or "missing", value or "installed")
            )
    wrong.extend(
        f"package {n} is not held"
        for n, there in state.get("held package", {}).items()
        if not there
    )
    wrong.extend(
        f"package source {url} is in no file"
        for url, files in state.get("package source", {}).items()
        if not files
    )
    wrong.extend(
        f"address {name} is missing" for name, there in state["address"].items() if not there
    )
    return wrong


def explain_difference(wrong: list[str], before: str, now: str) -> str:
    """Return why the node differs from the roles' reports. *before* and *now* are its boot ids."""
    seen = "; ".join(wrong)
    if before and before != now:
        first, second = (mark.partition("/")[0] for mark in (before, now))
        return (
            f"[MF-103] The node restarted during this run (boot {first} at its start, "
            f"{second} now), so changes that were not confirmed are gone: {seen}. "
            "Check: journalctl --list-boots. Fix: run the same command again."
        )
    return (
        f"[MF-101] The node is not in the state that the roles gave it: {seen}. Something undid a change during "
        "this run. Check: look for another program that manages this node (cron, Puppet, cloud-init)."
    )


def main() -> None:
    """Observe, compare with the last manifest, write."""
    module = AnsibleModule(
        argument_spec={
            "digest": {"type": "str"},
            "owned": {"type": "dict"},
            "notes": {"type": "list", "elements": "dict", "default": []},
            "resolved": {"type": "dict", "default": {}},
            "members": {"type": "dict", "default": {}},
            "ran": {"type": "str", "choices": ["all", "most", "some"], "default": "all"},
            "boot": {"type": "str", "default": ""},
            "state": {
                "type": "str",
                "choices": ["present", "absent"],
                "default": "present",
            },
        },
        required_if=[("state", "present", ("digest", "owned"))],
        supports_check_mode=True,
    )
    path = manifest.PATH
    if module.params["state"] != "present":
        there = os.path.exists(path)
        if there and not module.check_mode:
            os.unlink(path)
        module.exit_json(changed=there, path=path, untrue=[])
    try:
        owned = manifest.merge_owned(module.params["owned"])
    except ValueError as error:
        module.fail_json(msg=f"[MF-102] {error}. Fix: correct the role's __<role>_owned.")
    state = manifest.observe_owned(owned)
    wrong = describe_missing_state(owned, state)
    if wrong and not module.check_mode:
        module.fail_json(
            msg=explain_difference(wrong, module.params["boot"], node.read_boot_mark()),
            path=path,
            untrue=wrong,
        )
    new: manifest.NodeManifest = {
        "schema": manifest.SCHEMA,
        "digest": module.params["digest"],
        "owned": owned,
        "roles": {
            role: manifest.merge_owned({role: items})
            for role, items in module.params["owned"].items()
        },
        "state": state,
        "notes": module.params["notes"],
        "resolved": module.params["resolved"],
        "members": module.params["members"],
        "gpus": [
            one["bus"] for one in accelerators.list_accelerators() if one["vendor"] == "nvidia"
        ],
    }
    old = manifest.load_manifest(path)[0]
    ran = module.params["ran"]
    if old is None and ran == "some":
        module.exit_json(changed=False, path=path, untrue=wrong)
        return
    if ran != "all":
        new = manifest.merge_partial_run(old, new) if old else {**new, "digest": ""}
    changed = old != new
    if changed and not module.check_mode:
        manifest.write_manifest(new, path)
    module.exit_json(changed=changed, path=path, untrue=wrong)


if __name__ == "__main__":
    main()
