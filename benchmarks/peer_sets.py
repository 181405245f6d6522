"""Measure how long a node's firewall takes with many peers: firewalld reads its sets, the kernel loads the rules.

    ./fullmesh lab up --name bench --nodes 1 && ansible-playbook site.yml --skip-tags verify \\
        -i /var/lib/fullmesh-lab/labs/bench/inventory && \\
    .venv/bin/python benchmarks/peer_sets.py --lab bench --node el1 [--peers 2 100 1000 4000] [--rounds 3]

This uses real firewalld on real nftables, in the network namespace of a lab node. For each number of peers, it writes
the set's file as the role peer_firewall does. Then three programs read it: ``firewall-cmd --reload``,
``firewall-offline-cmd --check-config``, and nft in a separate table. Sizes are interleaved. The output has the medians
and the exponent. At the end, the node's own set is restored.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SET = "/etc/firewalld/ipsets/fullmesh-peers4.xml"
# Runs on the node: standard library only. Prints seconds of the reload, of the check, of nft.
INSIDE = """
import subprocess, sys, time
count, path = int(sys.argv[1]), sys.argv[2]
peers = ["10.%d.%d.%d" % (200 + n // 62500, n // 250 % 250, n % 250 + 1) for n in range(count)]
before = open(path).read()
head, _, rest = before.partition("  <entry>")
tail = rest[rest.rindex("</entry>") + len("</entry>"):]
def timed(words, text=None):
    begun = time.monotonic()
    subprocess.run(words, input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun
try:
    with open(path, "w") as file:
        file.write(head + "\\n".join("  <entry>%s</entry>" % one for one in peers) + tail)
    check = timed(["firewall-offline-cmd", "--check-config"])
    reload = timed(["firewall-cmd", "--reload"])
finally:
    with open(path, "w") as file:
        file.write(before)
    subprocess.run(["firewall-cmd", "--reload"], check=True, stdout=subprocess.DEVNULL)
rules = "table inet bench { set peers { type ipv4_addr; flags interval; elements = { %s }; }; }\\n" % ", ".join(peers)
nft = timed(["nft", "-f", "-"], rules)
subprocess.run(["nft", "delete", "table", "inet", "bench"], check=True)
print(reload, check, nft)
"""
KINDS = ("firewall-cmd --reload", "firewall-offline-cmd --check-config", "nft -f, the set alone")


def once(lab: str, node: str, count: int) -> list[float]:
    """Return the seconds of each kind with so many peers."""
    command = ["./fullmesh", "lab", "exec", "--name", lab, node, "--", "python3", "-c", INSIDE]
    done = subprocess.run(
        [*command, str(count), SET], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{node}: {done.stderr[-2000:]}")
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    """Run the sizes interleaved, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", required=True)
    parser.add_argument("--node", default="el1")
    parser.add_argument("--peers", type=int, nargs="+", default=[2, 100, 1000, 4000])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    took: dict[int, list[list[float]]] = {count: [] for count in args.peers}
    for _ in range(args.rounds):
        for count in args.peers:
            took[count].append(once(args.lab, args.node, count))
    for number, kind in enumerate(KINDS):
        medians = {c: statistics.median(run[number] for run in runs) for c, runs in took.items()}
        shown = ", ".join(f"{count}: {seconds:.3f} s" for count, seconds in medians.items())
        (small, low), (large, high) = list(medians.items())[-2:]
        grown = math.log(high / low) / math.log(large / small)
        print(f"{kind:<36} {shown}; exponent {grown:.2f} from {small} to {large}")


if __name__ == "__main__":
    main()
