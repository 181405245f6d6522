"""What may leave the machine: verdicts and logs of a bounded size, without its names, numbers and addresses."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

MOST_BYTES = 15 << 20  # of a file: 16 MiB may come back
MOST_FILES = 8
CUT = "\n... {} bytes left out here ...\n"
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
# Fields of nvidia-smi -q -x and of NVML that name one card, board or rack.
NUMBERS = re.compile(r"<(?:\w*serial\w*|\w*guid|pdi|board_id)>([^<]+)</")
UUID = re.compile(r"(?:GPU|MIG|NVSWITCH)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)")
IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
OWN = (
    ipaddress.ip_network("192.0.2.0/24"),
    ipaddress.ip_network("2001:db8::/32"),
)  # RFC 5737, 3849
NO_VALUE = {"", "N/A", "0", "None"}
SHORTEST = 3  # a host name of two letters is part of every other word


def list_machine_names() -> list[str]:
    """List the names of this machine, the longest first."""
    names = {socket.gethostname(), os.uname().nodename}  # getfqdn() would wait for a DNS server
    names |= {name.partition(".")[0] for name in names}
    plain = {"localhost", "localhost.localdomain", "node1", "node2"}
    return sorted((one for one in names - plain if len(one) >= SHORTEST), key=len, reverse=True)


class Scrubber:
    """Replaces names, numbers and addresses of the machine: each value by one word in all records."""

    def __init__(self, names: Iterable[str]) -> None:
        """Remember the names; numbers and addresses are learned from the texts."""
        self.words = {name: f"host{at}" for at, name in enumerate(names, 1)}

    def word(self, kind: str, value: str) -> str:
        """Return the word for a value; make one if the value is new."""
        count = sum(one.startswith(f"{kind}-") for one in self.words.values())
        return self.words.setdefault(value, f"{kind}-{count + 1}")

    def learn(self, text: str) -> None:
        """Remember the serial numbers in an answer of nvidia-smi."""
        for value in NUMBERS.findall(text):
            if value.strip() not in NO_VALUE:
                self.word("number", value.strip())

    def address(self, found: re.Match[str]) -> str:
        """Replace an address of the machine; keep loopback and the addresses of the two nodes."""
        try:
            one = ipaddress.ip_address(found[0])
        except ValueError:
            return found[0]
        ours = any(one in net for net in OWN if net.version == one.version)
        keeps = one.is_loopback or one.is_unspecified or ours
        return found[0] if keeps else self.word("address", found[0])

    def scrub(self, text: str) -> str:
        """Return the text as it may leave the machine."""
        for value, word in sorted(self.words.items(), key=lambda one: -len(one[0])):
            text = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", word, text)
        text = UUID.sub(lambda found: self.word("uuid", found[0]), text)
        text = MAC.sub(lambda found: self.word("mac", found[0]), text)
        return IPV6.sub(self.address, IPV4.sub(self.address, text))


def shorten_text(text: str, most: int = MOST_BYTES) -> str:
    """Return the text in *most* bytes: its beginning and its end, if it is longer."""
    raw = text.encode()
    if len(raw) <= most:
        return text
    half = (most - 2 * len(CUT)) // 2
    ends = (raw[:half].decode(errors="ignore"), raw[-half:].decode(errors="ignore"))
    return CUT.format(len(raw) - 2 * half).join(ends)


def write_records(work: Path, out: Path, names: Iterable[str]) -> list[str]:
    """Write each record of *work* into *out*, scrubbed and bounded; return their names.

    Raises:
        ValueError: there are more than may come back.
    """
    found = sorted(path for path in work.iterdir() if path.is_file())
    if len(found) > MOST_FILES:
        raise ValueError(f"{len(found)} records, and {MOST_FILES} may come back")
    texts = {path.name: path.read_text(errors="replace") for path in found}
    scrubber = Scrubber(names)
    for text in texts.values():
        scrubber.learn(text)
    for name, text in texts.items():
        (out / name).write_text(shorten_text(scrubber.scrub(text)))
    return list(texts)


def get_exit_status(verdicts: Iterable[str]) -> int:
    """Return 0 if all steps passed, 1 if a step failed or was not run."""
    return int(any(one in (FAILED, NOT_RUN) for one in verdicts))
