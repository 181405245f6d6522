"""Parse the user's machines: names, ranges, a file, or the hosts of an ssh configuration."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fullmesh.faults import Fault, InvalidInputError

RANGE = re.compile(r"\[(\d+)[:-](\d+)\]")
# Names that both Ansible and jobs accept.
NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
MOST = 1024


@dataclass(frozen=True)
class Machine:
    """A machine: its name, and its ssh address (or a name of ~/.ssh/config)."""

    name: str
    ssh: str
    user: str = ""


def refuse_machine_word(word: str, why: str) -> InvalidInputError:
    """Return the error for a word that names no machine."""
    step = "Write names, addresses or ranges such as gpu[1:4], or user@address"
    return InvalidInputError([Fault("IN-101", f"{word!r}: {why}", step)])


def expand_range(word: str) -> list[str]:
    """Expand ``node[01:12]`` as Ansible does: 12 names, with leading zeros. ``node[1-4]`` works too.

    Raises:
        InvalidInputError: it is not a range.
    """
    found = RANGE.search(word)
    if not found:
        if "[" in word or "]" in word:
            raise refuse_machine_word(word, "this is not a range")
        return [word]
    first, last = found.groups()
    if not 0 <= int(last) - int(first) < MOST:
        raise refuse_machine_word(word, f"a range from {first} to {last}")
    width = len(first) if first.startswith("0") else 0
    inner = [
        f"{word[: found.start()]}{number:0{width}}{word[found.end() :]}"
        for number in range(int(first), int(last) + 1)
    ]
    return list(itertools.chain.from_iterable(expand_range(one) for one in inner))


def derive_machine_name(target: str) -> str:
    """Derive the name of a machine: its ssh name without a domain, or ``node-`` and its address."""
    if re.fullmatch(r"[\d.]+|[\da-fA-F:]*:[\da-fA-F:]*", target):
        return "node-" + re.sub(r"[.:]+", "-", target).strip("-")
    return target.partition(".")[0]


def parse_machines(words: Iterable[str]) -> list[Machine]:
    """Parse the machines in words that commas or blanks separate, each once.

    Raises:
        InvalidInputError: a word is not a machine.
    """
    found: dict[str, Machine] = {}
    for word in itertools.chain.from_iterable(re.split(r"[,\s]+", text) for text in words):
        for target in expand_range(word) if word else ():
            user, _, host = target.rpartition("@")
            name = derive_machine_name(host)
            if not NAME.match(name):
                raise refuse_machine_word(target, "this is not the name of a machine")
            if name in found and found[name].ssh != host:
                raise refuse_machine_word(target, f"{found[name].ssh} is also called {name}")
            found[name] = Machine(name, host, user)
    return list(found.values())


def parse_hosts_file(text: str) -> list[str]:
    """Return the words of a file with one machine per line. ``#`` begins a comment, MPI's ``slots=8`` is ignored."""
    words = []
    for line in text.splitlines():
        first = line.partition("#")[0].split()
        if first:
            words.append(first[0])
    return words


def parse_ssh_config(text: str) -> list[str]:
    """Return the names of the ``Host`` lines of an ssh_config(5), without patterns."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        words = re.split(r"[\s=]+", line.strip())
        if words[0].lower() == "host":
            found |= dict.fromkeys(word for word in words[1:] if not re.search(r"[*?!]", word))
    return list(found)
