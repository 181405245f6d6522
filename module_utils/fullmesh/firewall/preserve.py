# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Other people's iptables rules, kept over firewalld's flushes. Stdlib only.

firewalld empties every table of iptables when it starts, reloads and stops, with the nftables backend too, and leaves
the policies (seen with 1.3.3): Docker's rules and the user's own are gone, and after ufw's ``INPUT DROP`` nobody gets
in any more. nftables tables of others are not touched. So what was there is put back, and only what is missing.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..netfilter import ruleset
from . import firewalld

if TYPE_CHECKING:
    from ..commands import Runner


# firewalld calls these commands too, so that both mean the same tables (iptables-nft or the old ones).
TOOLS = (("4", "iptables"), ("6", "ip6tables"))
# In /run: rules that were never written down are gone after a reboot, and so is this.
PLACE = "/run/fullmesh-iptables"


def dump(run: Runner) -> dict[str, str]:
    """Return what iptables-save prints, by family; nothing where there is no iptables or no rule."""
    found = {}
    for family, tool in TOOLS:
        rc, out = run([tool + "-save"])
        if rc == 0 and "\n-A " in "\n" + out:
            found[family] = out
    return found


def rules_of(text: str) -> dict[tuple[str, str], list[str]]:
    """Return {(table, chain): lines} of a dump, chains without rules included."""
    parsed = ruleset.parse_save(text, "ip")["chains"]
    return {key[1:]: [rule["line"] for rule in parsed[key]["rules"]] for key in parsed}


def missing(before: str, after: str) -> str:
    """Return what iptables-restore has to add to *after*, empty when nothing of *before* is missing."""
    then, now = rules_of(before), rules_of(after)
    tables: dict[str, tuple[list[str], list[str]]] = {}
    for (table, chain), lines in then.items():
        heads, rules = tables.setdefault(table, ([], []))
        if (table, chain) not in now:
            heads.append(f":{chain} - [0:0]")
        rules += [line for line in lines if line not in now.get((table, chain), [])]
    # A chain without rules to which nothing leads does nothing: only rules are worth a restore.
    texts = [
        "\n".join(["*" + table, *heads, *rules, "COMMIT", ""])
        for table, (heads, rules) in tables.items()
        if rules
    ]
    return "".join(texts)


def restore(run: Runner, before: dict[str, str]) -> list[str]:
    """Add what is missing now; say what could not be done."""
    faults = []
    for family, tool in TOOLS:
        if family not in before:
            continue
        text = missing(before[family], run([tool + "-save"])[1])
        if not text:
            continue
        path = f"{PLACE}{family}-missing"
        write(path, text)
        rc, out = run([tool + "-restore", "--noflush", path])
        os.unlink(path)
        if rc != 0:
            faults.append(f"{tool}-restore: {out.strip()}")
    return faults


def write(path: str, text: str) -> None:
    """Write a file that only root can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)


def save(run: Runner, before: dict[str, str]) -> list[str]:
    """Write dumps for the rollback; return the commands that make the tables exactly what they were."""
    commands = []
    real = chains_of(run(["nft", "list", "chains"])[1])
    for family, tool in TOOLS:
        path = PLACE + family
        if family in before:
            write(path, exact(before[family], real.get({"4": "ip", "6": "ip6"}[family], {})))
            commands.append(f"test ! -e {path} || {tool}-restore {path}")
        elif os.path.exists(path):
            os.unlink(path)
    return commands


def chains_of(text: str) -> dict[str, dict[str, set[str]]]:
    """Read ``nft list chains``: family -> table -> chains."""
    found: dict[str, dict[str, set[str]]] = {}
    now: set[str] = set()
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["table"]:
            now = found.setdefault(words[1], {}).setdefault(words[2], set())
        elif words[:1] == ["chain"]:
            now.add(words[1])
    return found


def exact(dump_text: str, real: dict[str, set[str]]) -> str:
    """Leave chains out that the kernel does not have: iptables-save prints all that a table can have.

    In the old tables all of them exist, and nftables knows nothing of them.
    """
    kept, table = [], ""
    for line in dump_text.splitlines():
        if line[:1] == "*":
            table = line[1:].strip()
        name = line[1:].split(" ")[0] if line[:1] == ":" else ""
        if not name or table not in real or name in real[table]:
            kept.append(line)
    return "\n".join(kept) + "\n"


def saved() -> dict[str, str]:
    """Return the dumps that were written."""
    found = {}
    for family, _ in TOOLS:
        try:
            with open(PLACE + family) as stream:
                found[family] = stream.read()
        except OSError:
            continue
    return found


def forget() -> None:
    """Remove the dumps."""
    for family, _ in TOOLS:
        if os.path.exists(PLACE + family):
            os.unlink(PLACE + family)


# --- between two firewalls ----------------------------------------------------------------------

GATE = "fullmesh_gate"
GATE_TEXT = """table inet {name} {{
  chain input {{
    type filter hook input priority -190; policy accept;
    ct state established,related accept
    iifname "lo" accept
    meta l4proto {{ icmp, ipv6-icmp }} accept
    udp dport {{ 68, 546 }} accept
    tcp dport {{ {ports} }} accept
    drop
  }}
}}
"""


def shut_gate(run: Runner, ssh_ports: list[int]) -> str:
    """Let nothing new in but ssh while one firewall goes and the other comes; say why that could not be done.

    A table of nftables of our own, which firewalld does not flush.
    """
    path = PLACE + "-gate"
    text = GATE_TEXT.format(name=GATE, ports=", ".join(str(port) for port in ssh_ports))
    write(path, text)
    rc, out = run(["nft", "-f", path])
    os.unlink(path)
    if rc != 0:
        # Debian's firewalld depends on the library (python3-nftables) and not on the command.
        rc, out = firewalld.library(text)
    return out.strip() or "no reason given" if rc != 0 else ""


def open_gate(run: Runner) -> None:
    """Take the gate away; nothing to do where there is none."""
    if run(["nft", "delete", "table", "inet", GATE])[0] != 0:
        firewalld.library("delete table inet " + GATE)


def opening() -> str:
    """Return the command that opens the gate on the rollback; it is well where there is none."""
    python = sys.executable or "/usr/bin/python3"
    return (
        f"if command -v nft; then ! nft list table inet {GATE} || nft delete table inet {GATE}; else "
        f"{python} -c 'import nftables; nftables.Nftables().cmd(\"delete table inet {GATE}\")' || :; fi"
    )
