"""What Ansible hands to filters: read by its type, without what Ansible itself adds."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from torch_samples import make_node, wheels

from fullmesh.border import validate_answer, validate_registered
from fullmesh.filters import torch_runtime
from fullmesh.observed.torch import VenvSeen, WheelhouseResult

# As ansible-core 2.19 registers it for `loop_control: {loop_var: __target, index_var: __at}`.
LOOP = {
    "ansible_loop_var": "__target",
    "__target": {"key": "set"},
    "ansible_index_var": "__at",
    "__at": 0,
}
ADDED: dict[str, Any] = {
    "failed": False,
    "invocation": {"module_args": {}},
    "warnings": ["a word"],
    "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3.11"},
}


def test_keys_that_ansible_adds_are_not_part_of_the_answer() -> None:
    assert (
        validate_registered(WheelhouseResult, {**wheels(), **ADDED, **LOOP}, "wheelhouse")
        == wheels()
    )
    plain_loop = {"ansible_loop_var": "item", "item": 1}
    assert (
        validate_registered(WheelhouseResult, {**wheels(), **ADDED, **plain_loop}, "wheelhouse")
        == wheels()
    )
    # an answer's own "changed" stays, another's goes
    assert (
        validate_registered(VenvSeen, {**make_node(), **ADDED, "changed": False}, "torch_venv")
        == make_node()
    )


def test_a_loops_results_give_each_node_its_wheels() -> None:
    key = torch_runtime.torch_runtime.derive_target_key("lock", "3.11", "x86_64")
    results = [{**wheels(key=one), **ADDED, **LOOP} for one in ("other", key)]
    said = {**make_node(), **ADDED, "changed": False}
    assert torch_runtime.torch_runtime_wheels(results, said, "lock")["key"] == key
    wanted = {"lock": "lock", "index": "https://index"}
    variables = {"__torch_runtime_seen": said, "__torch_runtime_wanted": wanted}
    hostvars = dict.fromkeys(("el1", "ubuntu1"), variables)
    plan = {"nodes": {"el1": {"node_rank": 0}, "ubuntu1": {"node_rank": 1}}}
    found = torch_runtime.torch_runtime_handover(results, hostvars, ["el1", "ubuntu1"], plan)
    assert found["ubuntu1"] == {"sources": ["el1"], "shared": True}
    (target,) = torch_runtime.torch_runtime_targets(hostvars, ["el1", "ubuntu1"])
    assert (target["key"], target["lock"], target["index"]) == (key, "lock", "https://index")


@pytest.mark.parametrize(
    ("change", "path"),
    [({"new": 1}, r"\$\.new: unknown field"), ({"bundle_bytes": "9"}, r"\$\.bundle_bytes: ")],
)
def test_another_form_is_refused_once_with_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(AnsibleFilterError, match=path) as caught:
        validate_registered(WheelhouseResult, {**wheels(), **ADDED, **change}, "wheelhouse")
    assert str(caught.value).count("wheelhouse has a different format") == 1
    with pytest.raises(AnsibleFilterError, match="torch_venv has a different format"):
        validate_answer(VenvSeen, None, "torch_venv")
