# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Report the state of a running job's ranks on this node.

Changes nothing in the job.

    fullmesh-hang [--job NAME] [--json]

To find the rank that the others wait for, run `./fullmesh hang -i INVENTORY` on the controller. It queries every node.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
import zlib
from typing import TYPE_CHECKING

import fullmesh_hang_look as hang_look

if TYPE_CHECKING:
    from fullmesh.observed.hang import NodeHang, Rank, RecorderEntry

MARK = "\x1efullmesh-hang "  # before an answer for the controller
CLOCK = "\x1efullmesh-clock "  # before this node's time, which the controller compares with its own
STAMPS, STAMP_PAUSE = 3, 0.02
NONE, OK = 1, 0
SECOND = 1_000_000_000  # nanoseconds
STATES = {
    "D": "waits for a disk or NFS",
    "T": "is stopped",
    "t": "is stopped by a debugger",
    "Z": "has ended",
}
UNNAMED = ("futex", "sleep", "other")  # waits that every Python program has
OTHERS = ("/torch/", "/lib/python", "/threading.py", "<frozen")


def make_printable(text: str) -> str:
    """Replace characters of a job's text that would control a terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)


def find_pending_entry(rank: Rank) -> RecorderEntry | None:
    """Return the first entry of a rank that has not ended."""
    return next((one for one in rank["entries"] if not one["retired"]), None)


def find_program_line(rank: Rank) -> str:
    """Return the innermost line of the program itself."""
    frames = rank["threads"][0]["frames"] if rank["threads"] else []
    own = [one for one in frames if not any(part in one["file"] for part in OTHERS)]
    return "{file}:{line} ({name})".format(**own[0]) if own else ""


def describe_rank(rank: Rank) -> str:
    """Describe the state of one rank."""
    entry, words = find_pending_entry(rank), []
    if entry:
        age = max(rank["taken_ns"] - entry["created_ns"], 0) / SECOND
        group = entry["desc"] or entry["group"]
        words.append(
            "in {} {} of {} for {:.0f} s".format(entry["kind"], entry["number"], group, age)
        )
    elif rank["entries"]:
        last = rank["entries"][-1]
        words.append("out of {} {}, in no collective".format(last["kind"], last["number"]))
    words += ["at " + find_program_line(rank)] if find_program_line(rank) else []
    words += [STATES[rank["native"]["state"]]] if rank["native"]["state"] in STATES else []
    wait = rank["native"].get("wait")
    words += ["waits for " + wait["text"]] if wait and wait["kind"] not in UNNAMED else []
    words += ["raised " + rank["raised"]["text"]] if rank["raised"] else []
    words += ["{}: {}".format(one["what"], one["why"]) for one in rank["missing"]]
    return make_printable(
        "rank {} (process {}): {}".format(rank["rank"], rank["pid"], ", ".join(words))
    )


def pack_answer(found: NodeHang) -> str:
    """Pack the answer for the controller. Ranks of a node are similar, so compression saves 90 %."""
    text = json.dumps(found, separators=(",", ":"))
    return MARK + base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def print_answer(host: str, job: str) -> None:
    """Print an answer for the controller, and this node's time, more than once since a line may arrive late."""
    sys.stdout.write(pack_answer(hang_look.read_node_ranks(host, job)) + "\n")
    for _ in range(STAMPS):
        sys.stdout.write(f"{CLOCK}{time.time_ns()}\n")
        sys.stdout.flush()
        time.sleep(STAMP_PAUSE)


def main(argv: list[str]) -> int:
    """Query the ranks and print their state."""
    parser = argparse.ArgumentParser(prog="fullmesh-hang", description=__doc__)
    parser.add_argument(
        "--job", default="", help="torchrun's or Slurm's id, or ADDRESS:PORT of the master"
    )
    parser.add_argument("--json", action="store_true", help="everything that the ranks said")
    parser.add_argument("--packed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--name", default=os.uname()[1], help=argparse.SUPPRESS)
    parser.add_argument("--again", type=float, action="append", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.packed:
        print_answer(args.name, args.job)
        for seconds in args.again:
            time.sleep(seconds)
            print_answer(args.name, args.job)
        return OK
    found = hang_look.read_node_ranks(args.name, args.job)
    if args.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return OK
    for rank in found["ranks"]:
        sys.stdout.write(describe_rank(rank) + "\n")
    for left in found.get("left_out", []):
        who = f"process {left['pid']}" if left["pid"] else f"{left['count']} processes"
        text = f"{who} of account {left['account']} left out: {left['why']}"
        sys.stderr.write(f"fullmesh-hang: {make_printable(text)}\n")
    if not found["ranks"]:
        sys.stderr.write(
            "fullmesh-hang: no rank of a job that this account may inspect runs here\n"
        )
        return NONE
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
