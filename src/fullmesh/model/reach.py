"""Explain from ssh's and sudo's messages why Fullmesh cannot reach a machine or become root, and the next step."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ssh(1) and sudo(8) have no error codes. These are their messages in every supported release.
CASES: tuple[tuple[str, str, str], ...] = (
    (
        r"Host key verification failed|host key is known|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "ssh does not know its host key, or the key has changed",
        "Compare the key with the console's and keep it: ssh-keyscan -t ed25519 {address} (docs/first-run.md)",
    ),
    (
        r"Permission denied \(|Too many authentication failures|Invalid/incorrect password",
        "it refuses the user or the key",
        "Copy your key: ssh-copy-id {user}{address}. Or set ansible_user and ansible_ssh_private_key_file",
    ),
    (
        r"Could not resolve hostname|Name or service not known|Temporary failure in name resolution",
        "its name does not resolve to an address",
        "Set ansible_host, or add it to /etc/hosts or ~/.ssh/config on this machine",
    ),
    (
        r"Connection refused",
        "nothing listens on its ssh port",
        "Start sshd on it, or set ansible_port",
    ),
    (
        r"sudo: a password is required|Missing sudo password|a terminal is required|incorrect sudo password"
        r"|is not in the sudoers|may not run sudo|sudo: command not found|sudo: not found"
        # sudo-rs, the sudo of Ubuntu 25.10 and later (seen with 0.2.5)
        r"|interactive authentication is required|I'm afraid I can't do that"
        r"|incorrect authentication attempts|Authentication failed, try again",
        "its user cannot become root with sudo, or not without a password",
        "Give the password with -K, or allow the user sudo without a password",
    ),
    (
        r"waiting for (privilege escalation|become success or become password) prompt",
        "sudo does not show the password prompt that Ansible expects, as sudo-rs (Ubuntu 25.10 and later) does not",
        "Set ansible_become_exe: sudo.ws, use ansible-core 2.22 or newer, or allow the user sudo without a password",
    ),
    (
        r"timed out|No route to host|Network is unreachable|Timeout",
        "it does not answer (switched off, another address, or a firewall)",
        "Switch it on and try: ssh {user}{address}",
    ),
    (
        r"python\S*: (command )?not found|No such file or directory.*python|interpreter.*not found",
        "it has no Python for Ansible",
        "Install python3 on it",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "its disk is full",
        "Free some space. See its use: df -h && du -xsh /var /tmp",
    ),
)


@dataclass(frozen=True)
class ReachProblem:
    """A problem in one sentence, and the next step."""

    what: str
    step: str


def explain_reach_failure(message: str, address: str, user: str = "") -> ReachProblem | None:
    """Explain a message of ssh, sudo or Python. Return None for an unknown one."""
    who = f"{user}@" if user else ""
    for pattern, what, step in CASES:
        if re.search(pattern, message):
            return ReachProblem(what, step.format(address=address, user=who))
    return None
