"""Print the kernel's whole rule set in a form for comparisons: no counters, no handles, chains by name.

Rules keep their order, but iptables-restore creates chains in another order. nft cannot express all iptables rules, so
the output of iptables-save follows.
"""

from __future__ import annotations

import subprocess
import sys


def read_lines(*argv: str) -> list[str]:
    """Return the lines that a command prints, none if the command does not exist."""
    try:
        done = subprocess.run(  # noqa: S603 (two commands, named below)
            argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return []
    return done.stdout.decode().splitlines()


blocks: dict[tuple[str, str], list[str]] = {}
table, block = "", [""]
for line in read_lines("nft", "-s", "list", "ruleset"):
    if line.startswith("table "):
        table = line
    elif line.startswith("\t") and line.endswith("{") and not line.startswith("\t\t"):
        block = blocks.setdefault((table, line.strip()), [])
    elif line.startswith("\t\t"):
        block.append(line.strip())
for family in ("iptables", "ip6tables"):
    for line in read_lines(family + "-save"):
        if line.startswith("*"):
            table = family + " " + line[1:]
        if line.startswith("-A "):
            blocks.setdefault((table, line.split()[1]), []).append(line)
for (where, name), lines in sorted(blocks.items()):
    sys.stdout.write(f"{where} {name}\n" + "".join(f"  {line}\n" for line in lines))
