"""Ray: no agent takes a job

The head got a job, but the agent of no node can take it. Another Ray cluster or process uses the
agent's port 52365, or a limit (ulimit -u) kept the agent from starting.

**Place:** the Ray nodes, at first the head

**Prove:** on the head, run `ss -ltnp | grep 52365` and read
/tmp/ray/session_latest/logs/dashboard_agent.log

**Fix:** End the other Ray (ray stop --force), give this one another port
(--dashboard-agent-listen-port), or raise ulimit -u before `ray start`.

**Source:** verl-project/verl#768, skypilot-org/skypilot#9856, ray-project/ray#51925
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-616",
    __doc__,
    examples=(
        (
            "RuntimeError: Request failed with status code 500: No available agent to submit job, "
            "please try again later.."
        ),
    ),
    patterns=(Pattern("No available agent to submit job"),),
    weight=74,
)
