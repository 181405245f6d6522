"""The calls of a diagnosis on a node, without Ansible around them: the same code, in a fraction of the time."""

from __future__ import annotations

import json
import sys

from ansible.module_utils.fullmesh.probe import first_call, job, rule_trace, second_call
from ansible.module_utils.fullmesh.schema import ladder_arguments

CALLS = {
    "node": (first_call.observe_and_listen, ladder_arguments.LADDER_NODE),
    "links": (second_call.connect_to_peers, ladder_arguments.LADDER_LINKS),
    "trace": (rule_trace.trace_rules, ladder_arguments.LADDER_TRACE),
    "stop": (job.control_test_job, ladder_arguments.LADDER_GLOO),
}

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    function, known = CALLS[asked["call"]]
    given = {name: one["default"] for name, one in known.items() if "default" in one}
    said = function(**{**given, **asked["want"]})
    if said.get("failed"):
        sys.exit(said["msg"])
    sys.stdout.write(json.dumps(said))
