"""The verb ``fullmesh lab``: up, down, status, exec, build, packages."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable

from devtools.lab import gpus as lab_gpus
from devtools.lab import host, lifecycle, plan, source, state
from devtools.lab.build import Builder
from devtools.lab.console import out, say
from devtools.lab.errors import LabError, StepError
from devtools.lab.paths import Paths, find
from devtools.lab.podman import Podman
from devtools.lab.state import Lab, Store
from devtools.lab.vm import cli as vm_cli
from devtools.lab.vm import store as vm_store
from fullmesh.catalogue import add_verb

# Exit codes of the whole project: 0 success, 1 something failed, 2 usage or environment.
FAILED, USAGE = 1, 2
# The default of `up --families`, so that tests run on other systems.
FAMILIES_VARIABLE = "FULLMESH_LAB_FAMILIES"
Command = Callable[[argparse.Namespace], int]


def guarded(command: Command) -> Command:
    """Report the lab's errors on standard error, and return an exit code."""

    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except LabError as error:
            say(str(error))
            return USAGE
        except StepError as error:
            say(str(error))
            return FAILED

    return run


def up(args: argparse.Namespace) -> int:
    """Bring a lab up."""
    families = os.environ.get(FAMILIES_VARIABLE) if args.families is None else args.families
    wish = lifecycle.Wish(
        name=plan.check_name(args.name),
        count=None if args.nodes is None else plan.check_count(args.nodes),
        families=None if families is None else plan.check_families(families),
        ipv6=True if args.ipv6 else None,
        outsider=args.outsider,
        dhcp=True if args.dhcp else None,
        compiled=not args.no_compiled,
    )
    lab = lifecycle.up(find(), wish)
    say(lab.note)
    return 0


def down(args: argparse.Namespace) -> int:
    """Remove one lab or all of them."""
    paths = find()
    names = state.names(paths) if args.all else [plan.check_name(args.name)]
    for name in names:
        lifecycle.down(paths, name)
    if args.purge:
        left = [*state.names(paths), *vm_store.names(paths)]
        if left:
            raise LabError(
                "LB-115", f"--purge with labs still up: {', '.join(left)}", "Add --all to it."
            )
        lifecycle.purge(paths)
    return 0


def status(args: argparse.Namespace) -> int:
    """Print one lab, or all of them."""
    paths = find()
    names = state.names(paths) if args.name is None else [plan.check_name(args.name)]
    for name in names:
        lifecycle.require(Store(paths, name))
    states = lifecycle.open_podman(paths).containers() if names else {}
    found = [lifecycle.status(paths, name, states) for name in names]
    if args.json:
        out(json.dumps(found if args.name is None else found[0], indent=2))
        return 0
    if not found:
        out("no lab; bring one up with: fullmesh lab up")
    for lab in found:
        out(f"{lab['name']}  ({lab['image_source']})  inventory: {lab['inventory']}")
        for node in lab["nodes"]:
            running = "running" if node["running"] else "STOPPED"
            words = f"{node['name']:<10} {running}  {node['management_address']:<13}"
            out(f"  {words} {node['cluster_address']:<20} {node['os']}  {node['hostname']}")
        out(f"  {lab['note']}")
    return 0


def running(paths: Paths, lab: Lab, node: plan.Node) -> Podman:
    """Return podman for a running node; LB-107 if it does not run."""
    podman = lifecycle.open_podman(paths)
    if podman.containers().get(node.container) != "running":
        raise LabError(
            "LB-107",
            f"{node.name} of lab {lab.name!r} does not run",
            f"Start it: fullmesh lab up --name {lab.name}",
        )
    return podman


def execute(args: argparse.Namespace) -> int:
    """Run a command in a node and return its exit code."""
    paths = find()
    lab = lifecycle.require(Store(paths, plan.check_name(args.name)))
    node = lifecycle.node_of(lab, args.node)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise LabError(
            "LB-116",
            "no command given",
            f"For example: fullmesh lab exec {node.name} -- ip address",
        )
    if args.command[0] != "--" and command[0].startswith("-"):
        raise LabError(
            "LB-116",
            f"{command[0]} is an option, not a command",
            f"Options go before the node: fullmesh lab exec --name {lab.name} {node.name} -- ip address",
        )
    return running(paths, lab, node).passthrough(node.container, command)


def gpus(args: argparse.Namespace) -> int:
    """Simulate GPUs in a node."""
    paths = find()
    lab_gpus.check_play(args.play)
    lab_gpus.check_lines(args.line)
    lab = lifecycle.require(Store(paths, plan.check_name(args.name)))
    node = lifecycle.node_of(lab, args.node)
    podman = running(paths, lab, node)
    lab_gpus.set_up(podman, paths, node.container, args.play, args.line)
    return 0


def build(_args: argparse.Namespace) -> int:
    """Build images and repositories only"""
    paths = find()
    podman = lifecycle.open_podman(paths)
    found = source.choose_image_source()
    builder = Builder(paths, podman, found.kind, found.families, found.images)
    builder.ensure()
    for stage in builder.stages:
        out(builder.image(stage))
    for stage in builder.folders():
        out(str(builder.folder(stage)))
    try:
        out(str(lab_gpus.ensure(paths)))
    except (
        StepError
    ) as error:  # nodes work without it: only `lab gpus` needs it, and reports the same error
        say(str(error))
    return 0


def packages(_args: argparse.Namespace) -> int:
    """Print the Debian packages that the lab needs on this machine."""
    for name in host.PACKAGES:
        out(name)
    return 0


def add_verbs(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``lab`` and its commands to the command line."""
    lab = add_verb(subparsers, "lab")
    commands = lab.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(func=guarded(command))
        return parser

    one = add("up", up, "Start a lab, or add what it lacks")
    one.add_argument("--name", default=plan.DEFAULT_NAME)
    one.add_argument(
        "--nodes",
        type=int,
        help=f"number of nodes, 1 to {plan.MAX_NODES} (default {plan.DEFAULT_NODES})",
    )
    one.add_argument(
        "--families",
        help=f"default {','.join(plan.FAMILIES)}, in this order; also {', '.join(plan.DEBIAN)}",
    )
    one.add_argument("--ipv6", action="store_true", help="plan IPv6 cluster addresses")
    one.add_argument("--outsider", action="store_true", help="add a node that is not a peer")
    one.add_argument(
        "--dhcp",
        action="store_true",
        help="one NIC per node, with a DHCP lease, for ssh and the cluster",
    )
    one.add_argument(
        "--no-compiled",
        action="store_true",
        help="new nodes compile Ansible's modules at every call, as real machines do (for timings)",
    )
    one = add("down", down, "Remove a lab, and keep images and repositories")
    one.add_argument("--name", default=plan.DEFAULT_NAME)
    one.add_argument("--all", action="store_true", help="all labs")
    one.add_argument("--purge", action="store_true", help="remove images and repositories too")
    one = add("status", status, "Show the labs and the nodes that run")
    one.add_argument("--name")
    one.add_argument("--json", action="store_true")
    one = add("exec", execute, "Run a command in a node, and return its exit code")
    one.add_argument("--name", default=plan.DEFAULT_NAME)
    one.add_argument("node", metavar="NODE")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    one = add(
        "gpus", gpus, "Simulate GPUs in a node: the real nvidia-smi with a stand-in for its library"
    )
    one.add_argument("--name", default=plan.DEFAULT_NAME)
    one.add_argument("node", metavar="NODE")
    one.add_argument("play", metavar="GPUS", help=", ".join([*lab_gpus.PLAYS, lab_gpus.NONE]))
    one.add_argument(
        "line", nargs="*", metavar="KEY=VALUE", help="a fault or difference, such as 3.ecc_lost=2"
    )
    add("build", build, "Build images and repositories only.")
    add("packages", packages, "Print the packages that this machine needs")
    vm_cli.add_verbs(commands, guarded)
