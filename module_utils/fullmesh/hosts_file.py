"""Parse and edit /etc/hosts: text in, text out.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from typing import TypedDict

from .files import split_lines

BEGIN = "# BEGIN Fullmesh, role name_resolution (changes between the marks are lost)"
END = "# END Fullmesh"
WAS = "# was: "
# Gloo announces the address of the host name. With a line like `127.0.1.1 node1` (written by Debian's installer) a node
# announces loopback, and its peers connect to themselves (pytorch#15592).
REASON = (
    "# A node whose own name is 127.0.1.1 announces loopback to its peers. Lines with other addresses for the"
    " names below were taken out; undo puts them back:"
)
LOOPBACK_NAMES = re.compile(
    r"^(localhost.*|ip6-(localhost|loopback|allnodes|allrouters|.*net.*|.*prefix.*))$"
)


class HostsEntry(TypedDict):
    """A line: an address and its names."""

    address: str
    names: list[str]


def filter_host_names(names: list[str]) -> list[str]:
    """Return the names that may have an address. A machine without a name is called localhost."""
    return [name for name in names if name and not LOOPBACK_NAMES.match(name)]


def order_host_names(names: list[str]) -> list[str]:
    """Order names with full names first: `hostname --fqdn` and getfqdn() return a line's first name."""
    unique = sorted(set(names), key=names.index)
    return [n for n in unique if "." in n] + [n for n in unique if "." not in n]


def add_own_names(hosts: list[HostsEntry], address: str, names: list[str]) -> list[HostsEntry]:
    """Add the node's own *names* to its own line."""
    return [
        {
            "address": host["address"],
            "names": order_host_names(filter_host_names(names) + host["names"])
            if host["address"] == address
            else host["names"],
        }
        for host in hosts
    ]


def build_hosts_file(text: str, hosts: list[HostsEntry]) -> str:
    """Return the whole file with Fullmesh's block first, and the cluster's names nowhere else.

    The block is first because glibc returns all matching lines in the file's order.
    """
    ours = {name.lower() for host in hosts for name in host["names"]}
    rest, before = split_hosts_block(text)
    taken = [line for line in before if list_line_names(line) & ours]
    kept = []
    # a removed line is restored if its name is no longer in the cluster
    for line in [line for line in before if line not in taken] + rest:
        if not list_line_names(line) & ours:
            kept.append(line)
            continue
        if line not in taken:
            taken.append(line)
        fields = split_hosts_line(line)
        names = [name for name in fields[1:] if name.lower() not in ours]
        if names:
            kept.append(" ".join([fields[0], *names]))
    return "\n".join(render_hosts_block(hosts, taken) + kept) + "\n"


def split_hosts_line(line: str) -> list[str]:
    """Split a line without its comment into words, at the blanks of isspace(3) and no other Unicode ones."""
    return [word for word in re.split(r"[ \t\r\f\v]+", line.split("#", 1)[0]) if word]


def list_line_names(line: str) -> set[str]:
    """Return the names of a line, in lower case as the resolver compares them."""
    return {name.lower() for name in split_hosts_line(line)[1:]}


def render_hosts_block(hosts: list[HostsEntry], taken: list[str]) -> list[str]:
    """Return Fullmesh's lines with their marks."""
    lines = [BEGIN]
    if taken:
        lines += [REASON] + [WAS + line for line in taken]
    lines += [" ".join([host["address"], *host["names"]]) for host in hosts]
    return [*lines, END]


def split_hosts_block(text: str) -> tuple[list[str], list[str]]:
    """Return the lines outside of Fullmesh's block, and the lines that an earlier run removed.

    An editor may have changed all line ends, including those of the marks.
    """
    rest, taken, inside = [], [], False
    for line in split_lines(text):
        mark = line.rstrip("\r")
        if mark == BEGIN:
            inside = True
        elif mark == END and inside:
            inside = False
        elif not inside:
            rest.append(line)
        elif line.startswith(WAS):
            taken.append(line[len(WAS) :])
    return rest, taken


def remove_hosts_block(text: str, original: str) -> str:
    """Return the file without Fullmesh's block.

    Lines that the block removed are restored, later lines of others stay.

    Args:
        text: the present file.
        original: the file before the first run, for the positions of lines.
    """
    kept, taken = split_hosts_block(text)
    order = split_lines(original)
    for line in taken:
        rest = [
            at
            for at, one in enumerate(kept)
            if is_reduced_line(line, one) and kept.count(one) > order.count(one)
        ]
        if rest:
            then = order.index(line) if line in order else 0
            kept[min(rest, key=lambda at: abs(at - then))] = line
            continue
        # behind the line that was before it, as far as that is still there
        above = order[: order.index(line)] if line in order else kept
        at = next((kept.index(one) + 1 for one in reversed(above) if one in kept), 0)
        kept.insert(at, line)
    return "".join(line + "\n" for line in kept)


def is_reduced_line(line: str, other: str) -> bool:
    """Return whether *other* is *line* after `build_hosts_file`: the same address with fewer names."""
    fields, rest = split_hosts_line(line), split_hosts_line(other)
    return (
        rest[:1] == fields[:1] and len(rest) > 1 and list_line_names(other) < list_line_names(line)
    )


def parse_manage_etc_hosts(text: str) -> str | None:
    """Return the value of manage_etc_hosts in a cloud-init file: None if it is missing, empty if it is off."""
    found = re.findall(
        r"^\s*manage_etc_hosts\s*:\s*([^#\n]*?)\s*(?:#.*)?$", text, re.MULTILINE | re.ASCII
    )
    if not found:
        return None
    value = str(found[-1]).strip("'\"")
    return "" if value.lower() in ("", "false", "no", "off", "~", "null") else value


def describe_wrong_answers(hosts: list[HostsEntry], answers: dict[str, list[str]]) -> list[str]:
    """Return the names whose first address is not their cluster address."""
    return [
        "{} is {} first, not {}".format(
            name, ", then ".join(answers[name]) or "unknown", host["address"]
        )
        for host in hosts
        for name in host["names"]
        if answers[name][:1] != [host["address"]]
    ]
