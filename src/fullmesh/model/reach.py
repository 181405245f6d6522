"""Why a machine could not be reached or not be root, out of ssh's and sudo's own words, and what to do next."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ssh(1) and sudo(8) have no codes; these are their messages in every supported release.
CASES: tuple[tuple[str, str, str], ...] = (
    (
        r"Host key verification failed|host key is known|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "ssh does not know its host key, or another one",
        "Compare the key with the console's and keep it: ssh-keyscan -t ed25519 {address} (docs/first-run.md)",
    ),
    (
        r"Permission denied \(|Too many authentication failures|Invalid/incorrect password",
        "it refuses the user or the key",
        "Give it your key: ssh-copy-id {user}{address}; or name ansible_user and ansible_ssh_private_key_file",
    ),
    (
        r"Could not resolve hostname|Name or service not known|Temporary failure in name resolution",
        "no address is known for its name",
        "Give it one: ansible_host, /etc/hosts or ~/.ssh/config on this machine",
    ),
    (
        r"Connection refused",
        "nothing listens on its ssh port",
        "Start sshd there, or name the port: ansible_port",
    ),
    (
        r"timed out|No route to host|Network is unreachable|Timeout",
        "it does not answer: off, another address, or a firewall",
        "Switch it on and try: ssh {user}{address}",
    ),
    (
        r"sudo: a password is required|Missing sudo password|a terminal is required|incorrect sudo password"
        r"|is not in the sudoers|may not run sudo|sudo: command not found|sudo: not found",
        "its user may not become root by sudo, or not without a password",
        "Give the password with -K, or the user sudo without one",
    ),
    (
        r"python\S*: (command )?not found|No such file or directory.*python|interpreter.*not found",
        "it has no Python for Ansible",
        "Install python3 there",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "its disk is full",
        "Make room: df -h; du -xsh /var /tmp",
    ),
)


@dataclass(frozen=True)
class ReachProblem:
    """What is wrong in a sentence, and the next step."""

    what: str
    step: str


def explain_reach_failure(message: str, address: str, user: str = "") -> ReachProblem | None:
    """What a message of ssh, sudo or Python means; None for one that is not known."""
    who = f"{user}@" if user else ""
    for pattern, what, step in CASES:
        if re.search(pattern, message):
            return ReachProblem(what, step.format(address=address, user=who))
    return None
