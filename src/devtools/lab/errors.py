"""Errors of the lab. A coded one is the user's or the machine's; an uncoded one is a failed step."""

from __future__ import annotations


class LabError(Exception):
    """A usage or environment problem: exit code 2."""

    def __init__(self, code: str, what: str, next_step: str) -> None:
        """Keep *what* was found (with the value seen) and the *next_step* to take."""
        super().__init__(f"[{code}] {what}. {next_step}")
        self.code = code


class StepError(Exception):
    """A step that should have worked did not: exit code 1; the text names the log file."""


CODES = {
    "LB-101": "the lab needs root",
    "LB-102": "programs are missing and this system is neither Debian nor Ubuntu",
    "LB-103": "apt-get could not install what the lab needs",
    "LB-104": "a lab name that is not one",
    "LB-105": "more or fewer nodes than a lab can have",
    "LB-106": "the lab has no node of that name",
    "LB-107": "there is no lab of that name, or the node does not run",
    "LB-108": "no subnet is free, or the lab's own is now used by another program",
    "LB-109": "FULLMESH_LAB_IMAGES has a value that is not known",
    "LB-110": "the lab's sources are not in the checkout",
    "LB-112": "another lab command holds a lock for too long",
    "LB-113": "a node family that the lab does not have",
    "LB-114": "an existing lab would have to become another one",
    "LB-115": "--purge while labs are up",
    "LB-116": "lab exec without a command",
    "LB-117": "this machine has too few inotify instances left for more nodes",
    "LB-118": "stand-in GPUs of a kind that the lab does not have",
    "LB-119": "a line of a play of stand-in GPUs that means nothing",
    "LB-120": "the lab on a system that is no Linux",
    "LB-130": "there are no virtual machines of that name",
    "LB-131": "virtual machines on a machine that is no x86-64",
}
