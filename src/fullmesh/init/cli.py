"""The verb ``init``: writes an inventory out of a few answers and what the machines have."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fullmesh.model.faults import Fault, RefusedError
from fullmesh.play import options
from fullmesh.play.names import run_name
from fullmesh.printed import clean_line, print_error, print_text
from fullmesh.settings import ROOT, RUNS, STARTED_IN

if TYPE_CHECKING:  # slow to import; other verbs go without
    from fullmesh.init.look import Heard
    from fullmesh.init.machines import Machine
    from fullmesh.init.propose import Proposal

OK, USAGE = 0, 2
DEFAULT_OUT = options.OWN_INVENTORY
TEMPLATE = ROOT / "inventory/prod/group_vars/all.yml"
SSH_CONFIG = Path("~/.ssh/config")
HERE = STARTED_IN

CODES = {
    "IN-101": "a word that names no machine",
    "IN-102": "an inventory that is there already; init never writes over one",
    "IN-103": "a machine that did not answer",
    "IN-104": "no network joins all machines",
    "IN-105": "nobody said which machines, and nobody can be asked",
    "IN-106": "a machine whose user may not become root",
    "IN-107": "a file with machines that cannot be read",
    "IN-108": "A machine reports a value that Fullmesh does not accept",
}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    text = "write an inventory: asks which machines, looks at them by ssh, proposes the cluster network"
    parser = verbs.add_parser(
        "init", help=text, description=f"{text}. Changes nothing on any machine."
    )
    parser.add_argument(
        "--hosts",
        action="append",
        default=[],
        metavar="NAMES",
        help="names, addresses or ranges: a,b or gpu[1:4]; user@ before it",
    )
    parser.add_argument("--hosts-file", metavar="FILE", help="a file with a machine a line")
    parser.add_argument(
        "--ssh-config",
        nargs="?",
        const=str(SSH_CONFIG),
        metavar="FILE",
        help="the Host names of ~/.ssh/config, or of another file",
    )
    parser.add_argument("-u", "--user", default="", help="who logs in, default: as ssh has it")
    parser.add_argument("--network", default="", help="the cluster's network, like 10.0.0.0/24")
    parser.add_argument(
        "--keep-network",
        action="store_true",
        help="somebody else keeps the addresses: write static_ip_manage: false",
    )
    parser.add_argument("--out", default="", help=f"folder to write, default {DEFAULT_OUT}")
    parser.add_argument(
        "--non-interactive", action="store_true", help="ask nothing, take the defaults"
    )
    chosen = (options.LIMIT, options.USER)  # --hosts and init's own --user
    options.add(parser, [one for one in (*options.CONNECT, *options.RUN) if one not in chosen])
    parser.set_defaults(func=run)


def question(text: str, default: str, *, ask: bool) -> str:
    """An answer, or the default, which is shown."""
    if not ask:
        return default
    shown = f" [{default}]" if default else ""
    try:
        return input(clean_line(f"{text}{shown}: ")).strip() or default
    except EOFError:
        return default


def file_text(path: str) -> str:
    """The text of a file that the user named.

    Raises:
        RefusedError: it cannot be read.
    """
    try:
        return (HERE / Path(path).expanduser()).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fault = Fault("IN-107", f"{path} cannot be read: {error}", "Name a text file")
        raise RefusedError([fault]) from error


def machines(args: argparse.Namespace, *, ask: bool) -> list[Machine]:
    """Which machines are meant.

    Raises:
        RefusedError: nobody says, or a word names none.
    """
    from fullmesh.init import machines as model  # noqa: PLC0415 (only here)

    words = list(args.hosts)
    if args.hosts_file:
        words += model.lines_of(file_text(args.hosts_file))
    if args.ssh_config:
        words += model.of_ssh_config(file_text(args.ssh_config))
    if not words and ask:
        known = SSH_CONFIG.expanduser()
        default = model.of_ssh_config(known.read_text(encoding="utf-8")) if known.is_file() else []
        text = "Which machines? Names, addresses or ranges such as gpu[1:4]"
        words = [question(text, ",".join(default), ask=ask)]
    found = model.read(words)
    if not found:
        step = "Name them: ./fullmesh init --hosts a,b or gpu[1:4], --hosts-file FILE, --ssh-config"
        raise RefusedError([Fault("IN-105", "no machine is named", step)])
    if args.user:
        found = [model.Machine(one.name, one.ssh, one.user or args.user) for one in found]
    return found


def network(heard: Heard, wanted: str, *, ask: bool) -> Proposal:
    """The cluster's network: the one that is asked for, the user's choice, or the best.

    Raises:
        RefusedError: none joins all machines.
    """
    from fullmesh.init import propose  # noqa: PLC0415 (only here)

    best = propose.chosen(heard.answers, wanted)
    others = propose.proposals(heard.answers)
    if wanted or not ask or len(others) == 1:
        return best
    for one in others:
        print_text(f"  {one.network}: {'; '.join(one.reasons()[1:])}")
    return propose.chosen(
        heard.answers, question("Which network is the cluster's?", str(best.network), ask=ask)
    )


def table(found: Sequence[Machine], heard: Heard, proposal: Proposal) -> list[str]:
    """The machines as they would stand in the inventory."""
    from fullmesh.init.propose import speed_of  # noqa: PLC0415 (only here)

    rows = [("node", "ssh", "system", "GPUs", "cluster address", "card", "speed", "kept by")]
    for one in found:
        facts, seat = heard.answers[one.name].facts, proposal.seats[one.name]
        system = f"{facts['distribution']} {facts['distribution_version']}"
        ssh = f"{one.user}@{one.ssh}" if one.user else one.ssh
        gpus = str(facts["fullmesh"]["gpus"])
        speed = speed_of(seat.card["speed"])
        rows.append(
            (one.name, ssh, system, gpus, seat.address, seat.card["name"], speed, seat.owner or "-")
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def checked(text: str, more: Mapping[str, object]) -> None:
    """Derive the plan of what is about to be written.

    Raises:
        RefusedError: it would be refused.
    """
    import yaml  # noqa: PLC0415 (only here)

    from fullmesh.model import plan  # noqa: PLC0415 (only here)

    hosts = yaml.safe_load(text)["torch_nodes"]["hosts"]
    plan.derive({name: {**more, **own} for name, own in hosts.items()})


def say(fault: Fault) -> None:
    """A fault on standard error."""
    print_error(f"fullmesh: {fault}")


def run(args: argparse.Namespace) -> int:
    """``fullmesh init``."""
    try:
        return make(args)
    except RefusedError as error:
        for fault in error.faults:
            say(fault)
        return USAGE


def refuse_what_is_there(out: Path) -> None:
    """Never write over an inventory.

    Raises:
        RefusedError: it is there.
    """
    if out.exists():
        step = "Name another folder with --out, or take this one away"
        raise RefusedError([Fault("IN-102", f"{out} is there already", step)])


def make(args: argparse.Namespace) -> int:
    """Ask, look, propose, check, write.

    Raises:
        RefusedError: it cannot be done.
    """
    from fullmesh.init import look, render  # noqa: PLC0415 (only here)
    from fullmesh.play import run as runner  # noqa: PLC0415 (only here)

    ask = not args.non_interactive and sys.stdin.isatty()
    out = HERE / args.out if args.out else ROOT / DEFAULT_OUT
    refuse_what_is_there(out)
    found = machines(args, ask=ask)
    if ask and not args.user and not any(one.user for one in found):
        args.user = question("Who logs in? Empty: as ssh has it", "", ask=ask)
        found = machines(
            argparse.Namespace(**vars(args) | {"hosts": [one.ssh for one in found]}), ask=False
        )
    folder = RUNS / run_name()
    folder.mkdir(parents=True)
    heard = look.ask(found, options.words(args), runner.view(args.progress), folder)
    if heard.faults:
        raise RefusedError(heard.faults)
    proposal = network(heard, args.network, ask=ask)
    print_text("\n".join(["", *table(found, heard, proposal), ""]))
    print_text(
        "\n".join(
            [f"Cluster network {proposal.network}:", *(f"  {one}" for one in proposal.reasons())]
        )
    )
    text = render.hosts_text(found, proposal, args.user)
    checked(text, {"static_ip_manage": not args.keep_network})
    for remark in heard.remarks:
        say(remark)
    if question(f"Write {shown(out)}? y or n", "y", ask=ask).lower() not in ("y", "yes"):
        return OK
    write(
        out,
        text,
        render.settings_text(
            TEMPLATE.read_text(encoding="utf-8"), args.user, keep_network=args.keep_network
        ),
    )
    typed = shown(out)
    print_text(f"\nwritten: {typed}/hosts.yml, {typed}/group_vars/all.yml\nnext:")
    for command, what in (
        ("plan", "what would change, on which node"),
        ("apply", "configure the nodes and verify them"),
    ):
        line = f"./fullmesh {command} -i {typed}"
        print_text(f"  {line:<36} {what}")
    return OK


def shown(path: Path) -> str:
    """A path as the user types it."""
    near = os.path.relpath(path, HERE)
    return near if len(near) < len(str(path)) else str(path)


def write(out: Path, hosts: str, settings: str) -> None:
    """Both files, whole; the folder is new."""
    (out / "group_vars").mkdir(parents=True)
    (out / "hosts.yml").write_text(hosts, encoding="utf-8")
    (out / "group_vars/all.yml").write_text(settings, encoding="utf-8")
