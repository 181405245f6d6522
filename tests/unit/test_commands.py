"""How modules run the node's programs: real programs, by Ansible's own module."""

from __future__ import annotations

import sys

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import NOT_FOUND, make_merged_runner, make_split_runner
from ansible.module_utils.testing import patch_module_args

BOTH = "import os, sys; print('out'); print('err', file=sys.stderr); sys.exit(int(sys.argv[1]))"


def module() -> AnsibleModule:
    with patch_module_args({}):
        return AnsibleModule(argument_spec={})


def test_a_program_answers_in_two_readable_texts() -> None:
    run = make_split_runner(module(), {"FULLMESH_TEST": "set"})
    assert run([sys.executable, "-c", BOTH, "3"]) == (3, "out\n", "err\n")
    code = "import os; print(os.environ['LC_ALL'], os.environ['FULLMESH_TEST'])"
    assert run([sys.executable, "-c", code]) == (0, "C set\n", "")


def test_a_program_that_is_not_there_is_an_answer() -> None:
    rc, out, err = make_split_runner(module())(["fullmesh-no-such-program"])
    assert (rc, out) == (NOT_FOUND, "")
    assert "No such file" in err


def test_complaints_count_only_where_it_failed() -> None:
    run = make_merged_runner(make_split_runner(module()))
    assert run([sys.executable, "-c", BOTH, "0"]) == (0, "out\n")
    assert run([sys.executable, "-c", BOTH, "1"]) == (1, "out\nerr\n")
