"""What the plays of our playbooks are called for a person; a test holds the table against the playbooks."""

from __future__ import annotations

PLAN, LOOK, BUNDLE, VERIFY = "plan", "look at the nodes", "bundle", "verify"
SSH = "ssh between nodes"
PHASES = {
    "Derive the cluster plan": PLAN,
    "Show the plan": PLAN,
    "Ask every node at once": LOOK,
    "Look at the nodes that did not answer": LOOK,
    "Wait for the changes that an interrupted run left": "wait for a revert",
    "Look at every node before touching any": LOOK,
    "Tell the nodes that have something to do": LOOK,
    "Look at every role's settings before touching any node": LOOK,
    "Bundle": BUNDLE,
    "Bundle, left over": BUNDLE,
    "Bundle, end": BUNDLE,
    "Network": "network",
    "Peers": "peers of a node that joined or left",
    "Firewall": "firewall",
    "Clock and kernel tuning": "clock and kernel",
    "Packages": "packages, torch",
    "Launchers": "launchers",
    "Ssh between the nodes": SSH,
    "Keep what the nodes converged to": "manifest",
    "Tell the nodes that had nothing to do": VERIFY,
    "Verify": VERIFY,
    "First look": "look at the machines",
    "Look at the nodes and try every link": "look, try every link",
    "Look at what EC2 puts between them": "look at EC2",
    "Judge": "judge",
}
# Shown only where they changed or failed, or took long enough to be wondered about.
QUIET = frozenset({BUNDLE, SSH, "manifest", "judge"})
QUIET_SECONDS = 15.0
# A play that goes through the roles: each of them is a phase.
BY_ROLE = frozenset({"Undo"})


UNDO = "undo "


def find_phase(play: str, role: str, now: str) -> str:
    """The phase of a task; a play that is not ours is one by its own name. *now*: the phase that is on."""
    if play not in BY_ROLE:
        return PHASES.get(play, play)
    if role and role != "preflight":
        return f"{UNDO}{role}"
    # between two roles stand the tasks that include them
    return now if now.startswith(UNDO) else LOOK
