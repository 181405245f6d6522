"""The verb ``init``: write an inventory from a few answers and the properties of the machines."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fullmesh.catalogue import add_verb
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.play import options
from fullmesh.play.names import make_run_name
from fullmesh.printed import clean_line, clean_values, measure_width, print_error, print_text
from fullmesh.settings import ROOT, RUNS, STARTED_IN

if TYPE_CHECKING:  # slow to import, and other verbs do not need it
    from fullmesh.init.look import MachineSurvey
    from fullmesh.init.machines import Machine
    from fullmesh.init.propose import NetworkProposal
    from fullmesh.init.rails_proposal import RailsProposal

OK, USAGE = 0, 2
YES = ("y", "yes")
DEFAULT_OUT = options.OWN_INVENTORY
TEMPLATE = ROOT / "inventory/prod/group_vars/all.yml"
SSH_CONFIG = Path("~/.ssh/config")
HERE = STARTED_IN

CODES = {
    "IN-101": "A word does not name a machine",
    "IN-102": "The inventory already exists, and init never overwrites one",
    "IN-103": "A machine did not answer",
    "IN-104": "No network connects all machines",
    "IN-105": "No machines were named, and there is no terminal to ask for them",
    "IN-106": "The user of a machine cannot become root",
    "IN-107": "The machines file cannot be read",
    "IN-108": "A machine reports a value that Fullmesh does not accept",
}


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "init", "Changes nothing on the machines.")
    parser.add_argument(
        "--hosts",
        action="append",
        default=[],
        metavar="NAMES",
        help="names, addresses or ranges, such as a,b or gpu[1:4], optionally with user@",
    )
    parser.add_argument("--hosts-file", metavar="FILE", help="file with one machine per line")
    parser.add_argument(
        "--ssh-config",
        nargs="?",
        const=str(SSH_CONFIG),
        metavar="FILE",
        help="take the Host names from ~/.ssh/config, or from FILE",
    )
    parser.add_argument(
        "-u", "--user", default="", help="log in as this user (default: the one that ssh uses)"
    )
    parser.add_argument("--network", default="", help="cluster network, such as 10.0.0.0/24")
    parser.add_argument(
        "--keep-network",
        action="store_true",
        help="do not manage addresses: write static_ip_manage: false",
    )
    parser.add_argument("--out", default="", help=f"folder to write (default {DEFAULT_OUT})")
    parser.add_argument(
        "--non-interactive", action="store_true", help="do not ask, use the defaults"
    )
    parser.add_argument("--json", action="store_true", help="do not ask, print the outcome as JSON")
    chosen = (options.LIMIT, options.USER)  # --hosts and init's own --user
    options.add_playbook_options(
        parser, [one for one in (*options.CONNECT, *options.RUN) if one not in chosen]
    )
    parser.set_defaults(func=run_init)


def ask_question(text: str, default: str, *, ask: bool) -> str:
    """Return the user's answer, or the default, which the prompt shows."""
    if not ask:
        return default
    shown = f" [{default}]" if default else ""
    try:
        return input(clean_line(f"{text}{shown}: ")).strip() or default
    except EOFError:
        return default


def read_named_file(path: str) -> str:
    """Return the text of a file that the user named.

    Raises:
        RefusedError: it cannot be read.
    """
    try:
        return (HERE / Path(path).expanduser()).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fault = Fault("IN-107", f"{path} cannot be read: {error}", "Name a text file")
        raise InvalidInputError([fault]) from error


def choose_machines(args: argparse.Namespace, *, ask: bool) -> list[Machine]:
    """Return the machines that the user means.

    Raises:
        RefusedError: the user named none, or a word is not a machine.
    """
    from fullmesh.init import machines  # noqa: PLC0415 (only here)

    words = list(args.hosts)
    if args.hosts_file:
        words += machines.parse_hosts_file(read_named_file(args.hosts_file))
    if args.ssh_config:
        words += machines.parse_ssh_config(read_named_file(args.ssh_config))
    if not words and ask:
        known = SSH_CONFIG.expanduser()
        default = (
            machines.parse_ssh_config(known.read_text(encoding="utf-8")) if known.is_file() else []
        )
        text = "Which machines? Names, addresses or ranges such as gpu[1:4]"
        words = [ask_question(text, ",".join(default), ask=ask)]
    found = machines.parse_machines(words)
    if not found:
        step = "Name them: ./fullmesh init --hosts a,b or gpu[1:4], --hosts-file FILE, --ssh-config"
        raise InvalidInputError([Fault("IN-105", "No machine is named", step)])
    if args.user:
        found = [machines.Machine(one.name, one.ssh, one.user or args.user) for one in found]
    return found


def choose_network(heard: MachineSurvey, wanted: str, *, ask: bool) -> NetworkProposal:
    """Return the cluster's network: the requested one, the user's choice, or the best one.

    Raises:
        RefusedError: none joins all machines.
    """
    from fullmesh.init import propose  # noqa: PLC0415 (only here)

    best = propose.choose_proposal(heard.answers, wanted)
    others = propose.propose_networks(heard.answers)
    if wanted or not ask or len(others) == 1:
        return best
    for one in others:
        print_text(f"  {one.network}: {'; '.join(one.reasons()[1:])}")
    return propose.choose_proposal(
        heard.answers, ask_question("Which network is the cluster's?", str(best.network), ask=ask)
    )


def choose_rails(
    args: argparse.Namespace,
    found: Sequence[Machine],
    heard: MachineSurvey,
    proposal: NetworkProposal,
    *,
    ask: bool,
) -> tuple[str, RailsProposal | None]:
    """Return the text of hosts.yml, and its rails. Rails that the plan refuses become a comment.

    Raises:
        RefusedError: Fullmesh would refuse the inventory without rails too.
    """
    from fullmesh.init import rails_proposal, render  # noqa: PLC0415 (only here)

    settings = {"static_ip_manage": not args.keep_network}
    chosen = rails_proposal.propose_rails(heard.answers, proposal, keep_network=args.keep_network)
    if chosen is not None and chosen.certain:
        try:
            text = render.render_hosts_file(found, proposal, args.user, chosen)
            check_inventory_text(text, settings)
        except InvalidInputError as error:
            chosen = rails_proposal.doubt_rails(chosen, [str(fault) for fault in error.faults])
    if chosen is not None and not args.json:
        title = "Rails" if chosen.certain else "Rails, as a comment since init is not certain"
        print_text("\n".join(["", f"{title}:", *(f"  {reason}" for reason in chosen.reasons)]))
    if chosen is not None and chosen.certain:
        question = f"Write {len(chosen.rails)} entries of fullmesh_rails? y or n"
        if ask_question(question, "y", ask=ask).lower() not in YES:
            chosen = None
    text = render.render_hosts_file(found, proposal, args.user, chosen)
    check_inventory_text(text, settings)
    return text, chosen


def render_machine_table(
    found: Sequence[Machine], heard: MachineSurvey, proposal: NetworkProposal
) -> list[str]:
    """Return the machines as inventory entries."""
    from fullmesh.init.propose import format_link_speed  # noqa: PLC0415 (only here)

    rows = [("node", "ssh", "system", "GPUs", "cluster address", "NIC", "speed", "managed by")]
    for one in found:
        facts, seat = heard.answers[one.name].facts, proposal.seats[one.name]
        system = f"{facts['distribution']} {facts['distribution_version']}"
        ssh = f"{one.user}@{one.ssh}" if one.user else one.ssh
        gpus = str(facts["fullmesh"]["gpus"])
        speed = format_link_speed(seat.card["speed"])
        rows.append(
            (one.name, ssh, system, gpus, seat.address, seat.card["name"], speed, seat.owner or "-")
        )
    return align_machine_rows(rows)


def render_inventory_document(
    out: Path,
    found: Sequence[Machine],
    heard: MachineSurvey,
    proposal: NetworkProposal,
    rails: RailsProposal | None,
) -> str:
    """Describe the new inventory for programs."""
    nodes = [
        {
            "node": one.name,
            "ssh": one.ssh,
            "user": one.user,
            "gpus": heard.answers[one.name].facts["fullmesh"]["gpus"],
            "address": proposal.seats[one.name].address,
            "interface": proposal.seats[one.name].card["name"],
        }
        for one in found
    ]
    network = {"network": str(proposal.network), "reasons": proposal.reasons()}
    remarks = [str(one) for one in heard.remarks]
    shown = (
        {"rails": rails.rails, "rails_certain": rails.certain, "rails_reasons": rails.reasons}
        if rails
        else {}
    )
    document = {"inventory": str(out), **network, "nodes": nodes, "notes": remarks, **shown}
    return json.dumps(clean_values(document), indent=2)


def align_machine_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the cells below their heads, or list each machine's cells if the terminal is too narrow."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    columns = measure_width(sys.stdout)
    if 0 < columns < sum(widths) + 2 * (len(widths) - 1):
        head, *machines = rows
        label = max(map(len, head)) + 2
        return [
            f"{f'  {title}:' if at else title:<{label + 3}}{cell}"
            for row in machines
            for at, (title, cell) in enumerate(zip(head, row, strict=True))
        ]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def check_inventory_text(text: str, more: Mapping[str, object]) -> None:
    """Derive the plan of the new inventory.

    Raises:
        RefusedError: Fullmesh would refuse the inventory.
    """
    import yaml  # noqa: PLC0415 (only here)

    from fullmesh.model import plan  # noqa: PLC0415 (only here)

    group = yaml.safe_load(text)["torch_nodes"]
    common = {**more, **group.get("vars", {})}
    plan.derive_plan({name: {**common, **own} for name, own in group["hosts"].items()})


def print_fault(fault: Fault) -> None:
    """Print an error on standard error."""
    print_error(f"fullmesh: {fault}")


def run_init(args: argparse.Namespace) -> int:
    """``fullmesh init``."""
    try:
        return create_inventory(args)
    except InvalidInputError as error:
        for fault in error.faults:
            print_fault(fault)
        return USAGE


def refuse_existing_folder(out: Path) -> None:
    """Never write over an inventory.

    Raises:
        RefusedError: it is there.
    """
    if out.exists():
        step = "Name another folder with --out, or remove this one"
        raise InvalidInputError([Fault("IN-102", f"{out} already exists", step)])


def create_inventory(args: argparse.Namespace) -> int:
    """Ask, look, propose, check, write.

    Raises:
        RefusedError: it cannot be done.
    """
    from fullmesh.init import look, render  # noqa: PLC0415 (only here)
    from fullmesh.play import run as runner  # noqa: PLC0415 (only here)

    ask = not (args.non_interactive or args.json) and sys.stdin.isatty()
    out = HERE / args.out if args.out else ROOT / DEFAULT_OUT
    refuse_existing_folder(out)
    found = choose_machines(args, ask=ask)
    if ask and not args.user and not any(one.user for one in found):
        args.user = ask_question(
            "Which user logs in? Empty: the user that ssh chooses", "", ask=ask
        )
        found = choose_machines(
            argparse.Namespace(**vars(args) | {"hosts": [one.ssh for one in found]}), ask=False
        )
    progress = options.PLAIN if args.json and args.progress == options.JSON else args.progress
    folder = RUNS / make_run_name()
    folder.mkdir(parents=True)
    heard = look.survey_machines(
        found, options.list_ansible_words(args), runner.choose_view(progress), folder
    )
    if heard.faults:
        raise InvalidInputError(heard.faults)
    proposal = choose_network(heard, args.network, ask=ask)
    if not args.json:
        reasons = (f"  {one}" for one in proposal.reasons())
        table = ["", *render_machine_table(found, heard, proposal), ""]
        print_text("\n".join([*table, f"Cluster network {proposal.network}:", *reasons]))
    text, rails = choose_rails(args, found, heard, proposal, ask=ask)
    for remark in heard.remarks:
        print_fault(remark)
    if ask_question(f"Write {shorten_typed_path(out)}? y or n", "y", ask=ask).lower() not in YES:
        return OK
    write_inventory(
        out,
        text,
        render.render_settings_file(
            TEMPLATE.read_text(encoding="utf-8"), args.user, keep_network=args.keep_network
        ),
    )
    typed = shorten_typed_path(out)
    if args.json:
        print_text(render_inventory_document(out, found, heard, proposal, rails))
        return OK
    print_text(f"\nwritten: {typed}/hosts.yml, {typed}/group_vars/all.yml\nnext:")
    for command, what in (
        ("plan", "preview the changes of each node"),
        ("apply", "configure the nodes and verify them"),
    ):
        line = f"./fullmesh {command} -i {typed}"
        print_text(f"  {line:<36} {what}")
    return OK


def shorten_typed_path(path: Path) -> str:
    """Return a path as the user types it."""
    near = os.path.relpath(path, HERE)
    return near if len(near) < len(str(path)) else str(path)


def write_inventory(out: Path, hosts: str, settings: str) -> None:
    """Write both files into a new folder."""
    (out / "group_vars").mkdir(parents=True)
    (out / "hosts.yml").write_text(hosts, encoding="utf-8")
    (out / "group_vars/all.yml").write_text(settings, encoding="utf-8")
