"""The first hour: which commands are recorded, and the page around what they printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A command of the hour.

    Attributes:
        name: of its part of the recording.
        title: of its part of the page.
        typed: the command.
        before: what a reader has to know.
        code: the exit code that it has to have.
        shown: whether the page shows what it prints.
        answer: typed when the command asks.
    """

    name: str
    title: str
    typed: str
    before: str
    code: int = 0
    shown: bool = True
    answer: str = ""


@dataclass(frozen=True)
class Done:
    """A step as it was recorded.

    Attributes:
        typed: the command.
        code: its exit code.
        seconds: how long it took.
        text: what stood on the terminal at the end.
    """

    typed: str
    code: int
    seconds: float
    text: str


INVENTORY = "-i inventory/mine"
TABLE = "'add table inet mine; add chain inet mine input { type filter hook input priority 0; }; "
RULE = "add rule inet mine input tcp dport 50000-54095 drop'"

STEPS = (
    Step(
        "init",
        "Describe the machines",
        "./fullmesh init --hosts el1,ubuntu1 --non-interactive",
        "Their names stand in ssh's configuration and their host keys are known, nothing else is."
        " On a terminal `init` asks; here it takes its own proposals.",
    ),
    Step(
        "settings",
        "Say what is special about the site",
        "cp -r inventory/lab/group_vars/all inventory/mine/group_vars/torch_nodes",
        "The lab reaches no internet and has mirrors of its own for NCCL and the time."
        " Machines with internet need no such step.",
        shown=False,
    ),
    Step(
        "plan",
        "See what would change",
        f"./fullmesh plan {INVENTORY}",
        "No machine is changed by this.",
    ),
    Step(
        "apply",
        "Configure and verify",
        f"./fullmesh apply {INVENTORY}",
        "Addresses, names, clocks, the firewall, kernel settings, NCCL, torch, launchers;"
        " then the verification, which ends with a training job.",
    ),
    Step(
        "again",
        "Once more",
        f"./fullmesh apply {INVENTORY}",
        "Each node is asked whether it still is what it was made. It is, so only the verification runs.",
    ),
    Step(
        "break",
        "Break something",
        f"./fullmesh lab exec --name hour ubuntu1 -- nft {TABLE}{RULE}",
        "On `ubuntu1` somebody loads a second firewall that drops the ports of the data range."
        " A job would now hang for half an hour and say `no error`.",
        shown=False,
    ),
    Step(
        "diagnose",
        "Ask what is wrong",
        f"./fullmesh diagnose {INVENTORY}",
        "The same works on machines that Fullmesh never configured.",
        code=1,
    ),
    Step(
        "mend",
        "Fix it",
        "./fullmesh lab exec --name hour ubuntu1 -- nft delete table inet mine",
        "The finding's own fix deletes the one rule. Here the whole table is known to be a mistake, so it goes.",
        shown=False,
    ),
    Step(
        "verify",
        "Prove it",
        f"./fullmesh verify {INVENTORY}",
        "",
    ),
    Step(
        "compare",
        "Compare with the run before",
        "./fullmesh report --against",
        "",
        code=0,
    ),
    Step(
        "foresee",
        "What undo would do",
        f"./fullmesh undo --plan {INVENTORY}",
        "",
    ),
    Step(
        "undo",
        "Give the machines back",
        f"./fullmesh undo {INVENTORY}",
        "It names the nodes and asks before it begins. In a script, `--yes` answers.",
        answer="y",
    ),
)


def dump(done: Mapping[str, Done]) -> str:
    """The recording as a file's text."""
    return json.dumps({name: vars(one) for name, one in done.items()}, indent=1) + "\n"


def load(text: str) -> dict[str, Done]:
    """The recording."""
    return {name: Done(**one) for name, one in json.loads(text).items()}


def page(done: Mapping[str, Done]) -> str:
    """docs/tutorials/first-hour.md."""
    lines = [
        "# A first hour, recorded",
        "",
        "Made by `python -m devtools.docs.recording hour`: every command ran one after the other, and what it printed",
        "and how long it took is shown as it was. The two machines are bare nodes of [the lab](../lab.md), one",
        "CentOS-like, one Ubuntu-like, on two processors that they share with the controller; torch's wheels were",
        "fetched on the way. Their second cards, which join them, had addresses that somebody had typed in and the",
        "next reboot would lose.",
        "",
        *table(done),
    ]
    for step in STEPS:
        lines += ["", f"## {step.title}", "", *([step.before, ""] if step.before else [])]
        lines += ["```console", f"$ {step.typed}"]
        lines += [done[step.name].text] if step.shown and done[step.name].text else []
        lines += ["```", "", spent(done[step.name])]
    return "\n".join(lines) + "\n"


def spent(one: Done) -> str:
    """Its time and its exit code."""
    return f"*{one.seconds:.0f} s, exit code {one.code}.*"


def table(done: Mapping[str, Done]) -> Iterator[str]:
    """Every command with its time."""
    yield from ("| command | seconds |", "|---|---:|")
    shown: Sequence[Step] = [step for step in STEPS if step.shown]
    for step in shown:
        yield f"| `{step.typed}` | {done[step.name].seconds:.0f} |"
    yield f"| together | {sum(done[step.name].seconds for step in shown):.0f} |"
