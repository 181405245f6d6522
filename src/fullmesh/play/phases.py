"""The names of plays as the live view shows them. A test compares the table with the playbooks."""

from __future__ import annotations

PLAN, LOOK, BUNDLE, VERIFY = "plan", "check the nodes", "bundle", "verify"
SSH = "ssh between nodes"
PHASES = {
    "Derive the cluster plan": PLAN,
    "Show the plan": PLAN,
    "Query all nodes at once": LOOK,
    "Query nodes that did not answer": LOOK,
    "Wait until interrupted changes are reverted": "wait for a revert",
    "Check all nodes before any change": LOOK,
    "Set facts of nodes to configure": LOOK,
    "Check the settings of every role": LOOK,
    "Switch to the bundle": BUNDLE,
    "Clean up an interrupted bundle run": BUNDLE,
    "Restore the package sources after the bundle": BUNDLE,
    "Configure the network": "network",
    "Update the peer lists": "peers of a node that joined or left",
    "Configure the firewall": "firewall",
    "Encrypt the cluster network": "WireGuard",
    "Tune clock and kernel": "clock and kernel",
    "Install the packages": "packages, torch",
    "Install the launchers": "launchers",
    "Configure ssh between the nodes": SSH,
    "Save the manifests": "manifest",
    "Set facts of unchanged nodes": VERIFY,
    "Verify the cluster": VERIFY,
    "Survey new machines": "survey the machines",
    "Survey the nodes and test links": "survey, test links",
    "Read EC2 security groups": "read EC2",
    "Report the findings": "report",
    "Read the recorded checks": "read the history",
}
# Shown only if they changed something, failed or took long.
QUIET = frozenset({BUNDLE, SSH, "manifest", "report"})
QUIET_SECONDS = 15.0
# A play that runs the roles: each of them is a phase.
BY_ROLE = frozenset({"Undo the changes"})


UNDO = "undo "


def find_phase(play: str, role: str, now: str) -> str:
    """Return the phase of a task. A play of the user is a phase with its own name. *now*: the current phase."""
    if play not in BY_ROLE:
        return PHASES.get(play, play)
    if role and role != "preflight":
        return f"{UNDO}{role}"
    # tasks that include the roles come between them
    return now if now.startswith(UNDO) else LOOK
