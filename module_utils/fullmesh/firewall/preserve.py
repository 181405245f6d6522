# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Keep foreign iptables rules when firewalld flushes them.

Standard library only.

firewalld empties every iptables table when it starts, reloads and stops, with the nftables backend too, but keeps the
policies (seen with 1.3.3). Docker's rules and the user's own are lost, and with ufw's ``INPUT DROP`` no client gets in
any more. Other nftables tables stay. A chain that lacks a rule is restored completely, because a rule depends on its
position.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from ..files import SPACE, split_lines
from ..tools import nft
from ..transaction.engine import find_system_python
from . import firewalld

if TYPE_CHECKING:
    from ..commands import Runner
    from ..tools.nft import ListedChain


# firewalld calls these commands too, so that both mean the same tables (iptables-nft or the old ones).
TOOLS = (("4", "iptables"), ("6", "ip6tables"))
# In /run: rules that were never written down are gone after a reboot, and so is this.
PLACE = "/run/fullmesh-iptables"
# dockerd writes its rules again within a second of firewalld's signal, in several calls
TRIES = 3


def dump_iptables(run: Runner) -> dict[str, str]:
    """Return the output of iptables-save by family. {} without iptables or rules."""
    found = {}
    for family, tool in TOOLS:
        rc, out = run([tool + "-save"])
        if rc == 0 and "\n-A " in "\n" + out:
            found[family] = out
    return found


def parse_iptables_dump(text: str) -> dict[tuple[str, str], list[str]]:
    """Return {(table, chain): lines} of a dump, chains without rules included."""
    found: dict[tuple[str, str], list[str]] = {}
    table = ""
    for line in split_lines(text):
        name = line.split(" ")
        if line[:1] == "*":
            table = line[1:].strip(SPACE)
        elif line[:1] == ":":
            found.setdefault((table, name[0][1:]), [])
        elif name[0] == "-A" and name[1:]:
            found.setdefault((table, name[1]), []).append(line.rstrip(SPACE))
    return found


def merge_rules(then: list[str], now: list[str]) -> list[str]:
    """Return the rules of *then* in their order, with the new rules of *now* inserted.

    A new rule follows the same old rule as in *now*. Without one, it precedes the next old rule or comes last. So it
    never passes a packet that an old rule drops. Duplicates are kept.
    """
    places: dict[str, list[int]] = {}
    for place, line in enumerate(then):
        places.setdefault(line, []).append(place)
    first: list[str] = []
    after: dict[int, list[str]] = {}
    last, before = -1, len(then)
    for line in now:
        if places.get(line):
            place = places[line].pop(0)
            before = place if last < 0 else before
            last = place
        elif last < 0:
            first.append(line)
        else:
            after.setdefault(last, []).append(line)
    merged: list[str] = []
    for place, line in enumerate(then):
        merged += first if place == before else []
        merged += [line, *after.get(place, [])]
    return merged + (first if before == len(then) else [])


def has_rules_in_order(then: list[str], now: list[str]) -> bool:
    """Return whether *now* has every rule of *then*, in the order of *then*."""
    rest = iter(now)
    return all(line in rest for line in then)


def describe_lost_chains(before: str, after: str) -> list[str]:
    """Describe the chains of *before* that lack a rule in *after*, or have another order."""
    then, now = parse_iptables_dump(before), parse_iptables_dump(after)
    return [
        f"chain {chain} of table {table}"
        for (table, chain), lines in then.items()
        if not has_rules_in_order(lines, now.get((table, chain), []))
    ]


def build_restore_text(before: str, after: str) -> str:
    """Return the input of ``iptables-restore --noflush`` that adds the missing rules of *before*, or "".

    A chain that lacks a rule, or has another order, is emptied and filled again, in one transaction for its table.
    """
    then, now = parse_iptables_dump(before), parse_iptables_dump(after)
    tables: dict[str, tuple[list[str], list[str]]] = {}
    for (table, chain), lines in then.items():
        heads, rules = tables.setdefault(table, ([], []))
        there = now.get((table, chain))
        if there is None:
            heads.append(f":{chain} - [0:0]")
        if not has_rules_in_order(lines, there or []):
            rules += [f"-F {chain}"] if there else []
            rules += merge_rules(lines, there or [])
    # A chain without rules to which nothing leads does nothing: only rules are worth a restore.
    texts = [
        "\n".join(["*" + table, *heads, *rules, "COMMIT", ""])
        for table, (heads, rules) in tables.items()
        if rules
    ]
    return "".join(texts)


def restore_iptables(run: Runner, before: dict[str, str]) -> list[str]:
    """Restore the chains that lack a rule. Return the failures."""
    faults = []
    for family, tool in TOOLS:
        if family in before:
            fault = restore_iptables_family(run, before[family], family, tool)
            faults += [fault] if fault else []
    return faults


def restore_iptables_family(run: Runner, before: str, family: str, tool: str) -> str:
    """Restore one family. The result is compared, because dockerd and others may write at the same time."""
    path = f"{PLACE}{family}-missing"
    fault = ""
    for _ in range(TRIES):
        text = build_restore_text(before, run([tool + "-save"])[1])
        if not text:
            return ""
        write_root_file(path, text)
        rc, out = run([tool + "-restore", "--noflush", path])
        os.unlink(path)
        fault = f"{tool}-restore: {out.strip(SPACE)}" if rc != 0 else ""
    lost = describe_lost_chains(before, run([tool + "-save"])[1])
    if lost and not fault:
        fault = f"{tool}: the rules are not in their old order in {', '.join(lost)}"
    return fault if lost else ""


def write_root_file(path: str, text: str) -> None:
    """Write a file that only root can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)


def save_iptables(run: Runner, before: dict[str, str]) -> list[str]:
    """Write dumps for the rollback. Return the commands that restore the tables exactly."""
    commands = []
    real = map_table_chains(nft.parse_chains(run(nft.build_chains_command())[1]))
    for family, tool in TOOLS:
        path = PLACE + family
        if family in before:
            write_root_file(
                path,
                drop_missing_chains(before[family], real.get({"4": "ip", "6": "ip6"}[family], {})),
            )
            commands.append(f"test ! -e {path} || {tool}-restore {path}")
        elif os.path.exists(path):
            os.unlink(path)
    return commands


def map_table_chains(chains: list[ListedChain]) -> dict[str, dict[str, set[str]]]:
    """Map chains: family -> table -> names."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in chains:
        found.setdefault(one.family, {}).setdefault(one.table, set()).add(one.name)
    return found


def drop_missing_chains(dump_text: str, real: dict[str, set[str]]) -> str:
    """Drop chains that the kernel does not have, because iptables-save prints every possible chain.

    In the old tables all of them exist, but nftables does not have them.
    """
    kept, table = [], ""
    for line in split_lines(dump_text):
        if line[:1] == "*":
            table = line[1:].strip(SPACE)
        name = line[1:].split(" ")[0] if line[:1] == ":" else ""
        if not name or table not in real or name in real[table]:
            kept.append(line)
    return "\n".join(kept) + "\n"


def read_saved_iptables() -> dict[str, str]:
    """Return the saved dumps."""
    found = {}
    for family, _ in TOOLS:
        try:
            with open(PLACE + family) as stream:
                found[family] = stream.read()
        except OSError:
            continue
    return found


def remove_saved_iptables() -> None:
    """Remove the saved dumps."""
    for family, _ in TOOLS:
        if os.path.exists(PLACE + family):
            os.unlink(PLACE + family)


# --- between two firewalls ----------------------------------------------------------------------

GATE = "fullmesh_gate"
# in one transaction, so that it works whether the table is there or not
OPEN = f"add table inet {GATE}; delete table inet {GATE}"
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


def block_new_connections(run: Runner, ssh_ports: list[int]) -> str:
    """Block new connections except ssh while one firewall replaces another.

    Return the error, or "".

    This uses a separate nftables table, which firewalld does not flush.
    """
    path = PLACE + "-gate"
    text = GATE_TEXT.format(name=GATE, ports=", ".join(str(port) for port in ssh_ports))
    write_root_file(path, text)
    rc, out = run(["nft", "-f", path])
    os.unlink(path)
    if rc != 0:
        # Debian's firewalld depends on the library (python3-nftables) and not on the command.
        rc, out = firewalld.run_libnftables(text)
    return out.strip(SPACE) or "no reason given" if rc != 0 else ""


def unblock_new_connections(run: Runner) -> str:
    """Remove the blocking table if it exists. Return the error, or ""."""
    rc, out = run(["nft", OPEN])
    if rc != 0:
        rc, out = firewalld.run_libnftables(OPEN)
    return out.strip(SPACE) or "no reason given" if rc != 0 else ""


def build_unblock_command() -> str:
    """Return the rollback's command that removes the blocking table. It also succeeds without one."""
    return build_nft_command(OPEN)


def build_unblock_trial() -> str:
    """Return a command that tests without a change whether `build_unblock_command` would work."""
    return build_nft_command("list tables")


def build_nft_command(words: str) -> str:
    """Return a shell command that runs *words* with nft, or with its library in the system's own Python."""
    code = f'import nftables, sys; rc, _, said = nftables.Nftables().cmd("{words}"); sys.exit(said if rc else 0)'
    python = shlex.quote(find_system_python())
    return f"if command -v nft; then nft '{words}'; else {python} -I -c '{code}'; fi"
