"""The verb ``fullmesh lab vm``: up, ssh, reset, down, build."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable

from devtools.lab import host
from devtools.lab import plan as lab_plan
from devtools.lab.console import out, say
from devtools.lab.paths import find
from devtools.lab.vm import lifecycle, plan, store
from devtools.lab.vm.machine import Vm
from devtools.lab.vm.store import VmStore

Command = Callable[[argparse.Namespace], int]


def up(args: argparse.Namespace) -> int:
    """Start a set of machines."""
    host.require_root()
    families = None if args.families is None else plan.check_families(args.families)
    lifecycle.up(find(), lab_plan.check_name(args.name), families)
    return 0


def status(args: argparse.Namespace) -> int:
    """Print the recorded machines."""
    paths = find()
    found = []
    for name in store.names(paths):
        one = VmStore(paths, name)
        for machine in one.load():
            running = bool(Vm(one, machine).pid())
            found.append({"set": name, "running": running, **machine.as_dict()})
    if args.json:
        out(json.dumps(found, indent=2))
        return 0
    for entry in found:
        ports = ", ".join(f"{address} at port {port}" for address, port in entry["ports"].items())
        word = "running" if entry["running"] else "STOPPED"
        out(f"{entry['set']}  {entry['name']:<8} {word}  {ports}")
    return 0


def ssh(args: argparse.Namespace) -> int:
    """Log in, or run a command and return its exit code."""
    one = VmStore(find(), lab_plan.check_name(args.name))
    vm = Vm(one, one.machine(args.machine))
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    return subprocess.run(vm.ssh_argv(*words, address=args.address), check=False).returncode


def reset(args: argparse.Namespace) -> int:
    """Press a machine's reset button and wait for its next boot."""
    one = VmStore(find(), lab_plan.check_name(args.name))
    vm = Vm(one, one.machine(args.machine))
    before = vm.boot_id()
    vm.reset()
    say(f"{args.machine} is back after {vm.wait(before):.1f} s")
    return 0


def down(args: argparse.Namespace) -> int:
    """End a set of machines, or all."""
    paths = find()
    names = store.names(paths) if args.all else [lab_plan.check_name(args.name)]
    for name in names:
        lifecycle.down(paths, name)
    return 0


def build(_args: argparse.Namespace) -> int:
    """Build the disks only"""
    for folder in lifecycle.disks(lifecycle.build(find())):
        out(folder)
    return 0


def add_verbs(
    lab: argparse._SubParsersAction[argparse.ArgumentParser],
    guarded: Callable[[Command], Command],
) -> None:
    """Add ``vm`` and its commands below ``lab``; *guarded* reports the lab's errors."""
    text = "Manage virtual machines, with real SELinux and real reboots"
    commands = lab.add_parser("vm", help=text, description=text).add_subparsers(
        required=True, metavar="COMMAND"
    )

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(func=guarded(command))
        return parser

    def of_set(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser.add_argument("--name", default=plan.DEFAULT_NAME)
        return parser

    one = of_set(add("up", up, "Start machines, and wait until ssh answers"))
    one.add_argument("--families", help="el, ubuntu or el,ubuntu (default)")
    one = of_set(add("ssh", ssh, "Log in to a machine, or run a command and return its exit code"))
    one.add_argument("--address", default="", help="address of the machine (default: from DHCP)")
    one.add_argument("machine", metavar="MACHINE")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    one = of_set(add("reset", reset, "Reset a machine, and wait for its next boot"))
    one.add_argument("machine", metavar="MACHINE")
    one = of_set(add("down", down, "Stop machines, and keep the built disks"))
    one.add_argument("--all", action="store_true", help="all sets of machines")
    one = add("status", status, "Show the machines")
    one.add_argument("--json", action="store_true")
    add("build", build, "Build the disks only.")
