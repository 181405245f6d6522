"""Checks of both benches: each fault has its own code at its own place, and a diagnosis changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from causes.cases import FAULTS
from causes.faults import ALL, MASTER, OUTSIDE, PEER, VICTIM, Fault

from fullmesh.causes.engine import index_cases
from fullmesh.diagnose.run import list_boot_codes
from fullmesh.settings import CLUSTER_WIDE
from fullmesh.verbs import diagnose as diagnose_cli

from . import table
from .bench import Bench, Diagnosis

CASES = index_cases()
SILENT = "192.0.2.53"
ROUNDS = 2


def of(lab: str) -> list[Fault]:
    """List the faults of a lab."""
    return [fault for fault in FAULTS if fault.lab == lab]


# The faults that CI runs, one for each family of rules. Verification has ``links`` and ``node``,
# too.
KEPT = {
    "links": "bare-range-drop",
    "node": "tuned-port-taken",
    "reach": "bare-unreachable",
    "addresses": "bare-duplicate",
    "names": "bare-own-foreign",
    "routes": "bare-rp-filter",
    "firewall": "tuned-second-table",
    "ports": "tuned-netns-range",
    "mtu": "bare-mtu",
    "quality": "bare-loss",
    "env": "tuned-ifname-one",
    "processes": "tuned-stale-job",
    "limits": "tuned-shm",
    "gpu": "bare-gpus",
    "ranks": "tuned-job-python-closed",
}


def parameters(lab: str) -> list[ParameterSet]:
    """Return the faults of a lab as test parameters. Faults outside ``KEPT`` only run with ``--all``."""
    return [
        pytest.param(
            fault,
            id=fault.name,
            marks=[] if f"{lab}-{fault.name}" in KEPT.values() else pytest.mark.rest,
        )
        for fault in of(lab)
    ]


def named(lab: str, name: str) -> Fault:
    """Return the fault with a name."""
    return next(fault for fault in of(lab) if fault.name == name)


def roles(where: Bench, fault: Fault) -> tuple[str, str]:
    """Return the broken node and the other one of the first two nodes."""
    master, worker = list(where.nodes)[:2]
    return (master, worker) if fault.victim == MASTER else (worker, master)


def settings(where: Bench, victim: str, peer: str) -> str:
    """Return the variables of the scripts as shell assignments."""
    here, there = where.nodes[victim], where.nodes[peer]
    first, last = where.ports
    values = {
        "LAB": where.name,
        "VICTIM": victim,
        "PEER": peer,
        "V_ADDR": here.address,
        "P_ADDR": there.address,
        "V_HOST": here.hostname,
        "P_HOST": there.hostname,
        "V_MGMT": here.management,
        "P_MGMT": there.management,
        "V_PID": here.pid,
        "V_CABLE": here.cable,
        "P_CABLE": there.cable,
        "BRIDGE": where.bridge,
        "INDEX": where.index,
        "NFT": where.nft,
        "FIRST": first,
        "MIDDLE": (first + last) // 2,
        "LAST": last,
        "SILENT": SILENT,
    }
    return "".join(f"{name}='{value}'\n" for name, value in values.items())


def run_step(where: Bench, place: str, script: str, pair: tuple[str, str]) -> None:
    """Run one script at its place."""
    victim, peer = pair
    whole = settings(where, victim, peer) + script
    if place == OUTSIDE:
        where.outside(whole)
    for node in {VICTIM: [victim], PEER: [peer], ALL: [victim, peer]}.get(place, []):
        where.on(node, whole)


@contextmanager
def broken(where: Bench, fault: Fault) -> Iterator[tuple[str, str]]:
    """Make the fault, and undo it after the block in any case."""
    pair = roles(where, fault)
    done: list[object] = []
    try:
        for step in fault.steps:
            done.append(step)
            run_step(where, step.at, step.do, pair)
        yield pair
    finally:
        for step in reversed([step for step in fault.steps if step in done]):
            run_step(where, step.at, step.undo, pair)


def expected(where: Bench, fault: Fault, pair: tuple[str, str]) -> dict[str, str]:
    """Return the fields that the primary finding must have."""
    victim, peer = pair
    first, last = where.ports
    names = {
        "victim": victim,
        "peer": peer,
        "master": next(iter(where.nodes)),
        "first": first,
        "last": last,
    }
    wanted = {"node": "{victim}", **fault.expect}
    return {key: value.format(**names) for key, value in wanted.items()}


def surprises(said: Diagnosis, fault: Fault, wanted: dict[str, str]) -> list[str]:
    """List the differences from the expected diagnosis."""
    cause, case = CASES[fault.case]
    code = fault.code or cause.code
    at_boot = code in list_boot_codes()
    first, other = (said.at_boot, said.findings) if at_boot else (said.findings, [])
    codes = [finding["code"] for finding in first + other]
    if codes != [code]:
        return [f"codes {codes} instead of [{code!r}]"]
    finding = first[0]
    wrong = [
        f"{key} is {finding[key]!r}, not {value!r}"
        for key, value in wanted.items()
        if (value not in finding[key] if key in ("port", "cause") else finding[key] != value)
    ]
    severity = fault.severity or case.severity or cause.severity
    if finding["severity"] != severity:
        wrong.append(f"severity {finding['severity']}, not {severity}")
    if said.code != (severity == "error"):
        wrong.append(f"exit code {said.code}")
    wrong += [f"{key} is empty" for key in (*case.fields, "fix", "cause") if not finding[key]]
    return wrong


def choose_inventory(where: Bench, fault: Fault) -> Path:
    """Return an inventory of the first two nodes, with the variables of a fault."""
    names = list(where.nodes)[:2]
    whole = fault.variables.keys() & set(CLUSTER_WIDE)
    changed = names if whole else [roles(where, fault)[0]]
    return where.chosen(names, dict.fromkeys(changed, fault.variables))


def fault_is_named(where: Bench, fault: Fault, every: int) -> None:
    """Check that one fault gives one primary finding, and that every Nth repair leaves no finding."""
    _, case = CASES[fault.case]
    pair = roles(where, fault)
    inventory = choose_inventory(where, fault)
    with broken(where, fault):
        said = where.diagnose(
            *case.options, inventory=inventory, deadline=fault.deadline or diagnose_cli.DEADLINE
        )
    wrong = surprises(said, fault, expected(where, fault, pair))
    loud = after_repair(where, every)
    table.row(f"{fault.lab}-{fault.name}", found=not wrong and not loud, seconds=said.seconds)
    assert not wrong, "\n".join([*wrong, said.told()])
    assert not loud, "after the repair:\n" + loud


def after_repair(where: Bench, every: int) -> str:
    """Diagnose the repaired nodes. Return the unexpected findings, "" if there are none or if it is not their turn."""
    where.repairs += 1
    if where.repairs % every:
        return ""
    quiet = where.diagnose(inventory=where.chosen(list(where.nodes)[:2]))
    return quiet.told() if quiet.findings or quiet.at_boot else ""


# Everything that a diagnosis could change: files, rules, kernel settings, addresses, its own data.
STATE = """
cd /etc && find . -xdev -type f ! -name '*.cache' ! -name adjtime -printf '%p %m %U:%G %T@ ' -exec sha256sum {} \\;
echo ==; nft -s list ruleset
echo ==; find /proc/sys/net /proc/sys/vm /proc/sys/kernel/hostname -type f -readable \\
  ! -name '*_count' ! -name 'stat_*' ! -name flush -exec grep -H . {} + 2>/dev/null | sort
echo ==; ip -o address | sed 's/valid_lft.*//' | sort; ip route show table all | sort; ip rule
echo ==; ip -o link | sed 's/qlen.*//'
echo ==; ls -A /run /tmp /var/tmp /root /var/lib /opt | grep -v -e '^\\.ansible' -e '^systemd-private'
echo ==; for one in /proc/[0-9]*; do
  case $(readlink $one/exe) in */python*) tr '\\0' ' ' < $one/cmdline; echo;; esac
done 2>/dev/null | sort
"""


def state(where: Bench, node: str) -> list[str]:
    """Return the state of a node."""
    return where.on(node, STATE).splitlines()


def nothing_changes(where: Bench) -> None:
    """Check that files, rules, settings, addresses and leftovers are the same after a diagnosis."""
    names = list(where.nodes)[:2]
    where.diagnose(
        inventory=where.chosen(names)
    )  # Ansible's own folder exists from the first login on
    before = {node: state(where, node) for node in names}
    assert all(len(lines) > 100 for lines in before.values())
    where.diagnose("--bandwidth", inventory=where.chosen(names))
    for node in names:
        changed = sorted(set(state(where, node)) ^ set(before[node]))
        assert not changed, f"{node}: {changed}"


def healthy_is_silent(where: Bench, count: int, family: int) -> None:
    """Check that a healthy cluster has no finding, not even a warning, in repeated runs."""
    names = list(where.nodes)[:count]
    six = {node: {"fullmesh_address": where.nodes[node].address6} for node in names}
    inventory = where.chosen(names, six if family == 6 else None)
    for _ in range(ROUNDS):
        said = where.diagnose(inventory=inventory)
        assert not said.findings + said.at_boot, said.told()
        assert said.result["plan"]["family"] == f"ipv{family}"
        assert len(said.result["links"]) == count * (count - 1)
        assert {link["verdict"] for link in said.result["links"]} == {"open"}


def both_are_named(where: Bench, faults: Sequence[Fault]) -> None:
    """Check that two faults on different nodes each have their finding, and that there is no third."""
    inventory = where.chosen(list(where.nodes)[:2])
    with ExitStack() as stack:
        for fault in faults:
            stack.enter_context(broken(where, fault))
        said = where.diagnose(inventory=inventory)
    wanted = sorted((CASES[fault.case][0].code, roles(where, fault)[0]) for fault in faults)
    assert wanted[0][1] != wanted[1][1]
    found = sorted((finding["code"], finding["node"]) for finding in said.findings)
    assert found == wanted, said.told()
    quiet = where.diagnose(inventory=inventory)
    assert not quiet.findings + quiet.at_boot, quiet.told()
