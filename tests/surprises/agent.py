"""The calls of a diagnosis on a node, without Ansible around them: the same code, in a fraction of the time."""

from __future__ import annotations

import json
import sys

from ansible.module_utils.fullmesh.probe import first_call, job, rule_trace, second_call
from ansible.module_utils.fullmesh.schema import ladder_arguments
from ansible.module_utils.fullmesh.survey import job_start, names

CALLS = {
    "node": (first_call.observe_and_listen, ladder_arguments.LADDER_NODE),
    "links": (second_call.connect_to_peers, ladder_arguments.LADDER_LINKS),
    "trace": (rule_trace.trace_rules, ladder_arguments.LADDER_TRACE),
    "stop": (job.control_test_job, ladder_arguments.LADDER_GLOO),
}

if __name__ == "__main__":
    # this machine is shared by tests: two seconds are not always enough
    names.NAME_SECONDS, job_start.SESSION, job_start.INSIDE = 30.0, 25.0, "20"
    job_start.PROGRAM = job_start.PROGRAM.replace("timeout=1)", "timeout=8)")
    asked = json.load(sys.stdin)
    function, known = CALLS[asked["call"]]
    given = {name: one["default"] for name, one in known.items() if "default" in one}
    answer = function(**{**given, **asked["want"]})
    if answer.get("failed"):
        sys.exit(answer["msg"])
    sys.stdout.write(json.dumps(answer))
