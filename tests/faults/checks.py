"""Shared checks of both benches: each fault has its code at its place, and a diagnosis changes nothing."""

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


def list_lab_faults(lab: str) -> list[Fault]:
    """List the faults of a lab."""
    return [fault for fault in FAULTS if fault.lab == lab]


# The faults that CI runs, one for each family of rules. Verification also has ``links`` and ``node``.
CI_FAULTS = {
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


def list_parameters(lab: str) -> list[ParameterSet]:
    """Return the faults of a lab as test parameters. Faults outside ``KEPT`` only run with ``--all``."""
    return [
        pytest.param(
            fault,
            id=fault.name,
            marks=[] if f"{lab}-{fault.name}" in CI_FAULTS.values() else pytest.mark.rest,
        )
        for fault in list_lab_faults(lab)
    ]


def find_fault(lab: str, name: str) -> Fault:
    """Return the fault with a name."""
    return next(fault for fault in list_lab_faults(lab) if fault.name == name)


def choose_roles(bench: Bench, fault: Fault) -> tuple[str, str]:
    """Return the broken node and the other one of the first two nodes."""
    master, worker = list(bench.nodes)[:2]
    return (master, worker) if fault.victim == MASTER else (worker, master)


def build_settings(bench: Bench, victim: str, peer: str) -> str:
    """Return the variables of the scripts as shell assignments."""
    here, there = bench.nodes[victim], bench.nodes[peer]
    first, last = bench.ports
    values = {
        "LAB": bench.name,
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
        "BRIDGE": bench.bridge,
        "INDEX": bench.index,
        "NFT": bench.nft,
        "FIRST": first,
        "MIDDLE": (first + last) // 2,
        "LAST": last,
        "SILENT": SILENT,
    }
    return "".join(f"{name}='{value}'\n" for name, value in values.items())


def run_step(bench: Bench, place: str, script: str, pair: tuple[str, str]) -> None:
    """Run one script at its place."""
    victim, peer = pair
    script_with_variables = build_settings(bench, victim, peer) + script
    if place == OUTSIDE:
        bench.run_outside(script_with_variables)
    for node in {VICTIM: [victim], PEER: [peer], ALL: [victim, peer]}.get(place, []):
        bench.on(node, script_with_variables)


@contextmanager
def make_fault(bench: Bench, fault: Fault) -> Iterator[tuple[str, str]]:
    """Make the fault, and undo it after the block in any case."""
    pair = choose_roles(bench, fault)
    steps_done: list[object] = []
    try:
        for step in fault.steps:
            steps_done.append(step)
            run_step(bench, step.at, step.do, pair)
        yield pair
    finally:
        for step in reversed([step for step in fault.steps if step in steps_done]):
            run_step(bench, step.at, step.undo, pair)


def list_expected_fields(bench: Bench, fault: Fault, pair: tuple[str, str]) -> dict[str, str]:
    """Return the fields that the primary finding must have."""
    victim, peer = pair
    first, last = bench.ports
    names = {
        "victim": victim,
        "peer": peer,
        "master": next(iter(bench.nodes)),
        "first": first,
        "last": last,
    }
    expected_fields = {"node": "{victim}", **fault.expect}
    return {key: value.format(**names) for key, value in expected_fields.items()}


def list_differences(
    diagnosis: Diagnosis, fault: Fault, expected_fields: dict[str, str]
) -> list[str]:
    """List the differences from the expected diagnosis."""
    cause, case = CASES[fault.case]
    code = fault.code or cause.code
    at_boot = code in list_boot_codes()
    first, other = (diagnosis.at_boot, diagnosis.findings) if at_boot else (diagnosis.findings, [])
    codes = [finding["code"] for finding in first + other]
    if codes != [code]:
        return [f"codes {codes} instead of [{code!r}]"]
    finding = first[0]
    wrong = [
        f"{key} is {finding[key]!r}, not {value!r}"
        for key, value in expected_fields.items()
        if (value not in finding[key] if key in ("port", "cause") else finding[key] != value)
    ]
    severity = fault.severity or case.severity or cause.severity
    if finding["severity"] != severity:
        wrong.append(f"severity {finding['severity']}, not {severity}")
    if diagnosis.code != (severity == "error"):
        wrong.append(f"exit code {diagnosis.code}")
    wrong += [f"{key} is empty" for key in (*case.fields, "fix", "cause") if not finding[key]]
    return wrong


def choose_inventory(bench: Bench, fault: Fault) -> Path:
    """Return an inventory of the first two nodes, with the variables of a fault."""
    names = list(bench.nodes)[:2]
    script_with_variables = fault.variables.keys() & set(CLUSTER_WIDE)
    changed = names if script_with_variables else [choose_roles(bench, fault)[0]]
    return bench.write_inventory(names, dict.fromkeys(changed, fault.variables))


def check_fault(bench: Bench, fault: Fault, every: int) -> None:
    """Check that one fault gives one primary finding, and that every Nth repair leaves no finding."""
    _, case = CASES[fault.case]
    pair = choose_roles(bench, fault)
    inventory = choose_inventory(bench, fault)
    with make_fault(bench, fault):
        diagnosis = bench.diagnose(
            *case.options, inventory=inventory, deadline=fault.deadline or diagnose_cli.DEADLINE
        )
    wrong = list_differences(diagnosis, fault, list_expected_fields(bench, fault, pair))
    unexpected = check_repaired_nodes(bench, every)
    table.save_row(
        f"{fault.lab}-{fault.name}", found=not wrong and not unexpected, seconds=diagnosis.seconds
    )
    assert not wrong, "\n".join([*wrong, diagnosis.describe_findings()])
    assert not unexpected, "after the repair:\n" + unexpected


def check_repaired_nodes(bench: Bench, every: int) -> str:
    """Diagnose the repaired nodes. Return the unexpected findings, "" if there are none or if it is not their turn."""
    bench.repairs += 1
    if bench.repairs % every:
        return ""
    second_diagnosis = bench.diagnose(inventory=bench.write_inventory(list(bench.nodes)[:2]))
    return (
        second_diagnosis.describe_findings()
        if second_diagnosis.findings or second_diagnosis.at_boot
        else ""
    )


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


def read_state(bench: Bench, node: str) -> list[str]:
    """Return the state of a node."""
    return bench.on(node, STATE).splitlines()


def check_nothing_changes(bench: Bench) -> None:
    """Check that files, rules, settings, addresses and leftovers are the same after a diagnosis."""
    names = list(bench.nodes)[:2]
    bench.diagnose(
        inventory=bench.write_inventory(names)
    )  # Ansible's own folder exists from the first login on
    before = {node: read_state(bench, node) for node in names}
    assert all(len(lines) > 100 for lines in before.values())
    bench.diagnose("--bandwidth", inventory=bench.write_inventory(names))
    for node in names:
        changed = sorted(set(read_state(bench, node)) ^ set(before[node]))
        assert not changed, f"{node}: {changed}"


def check_healthy_nodes(bench: Bench, count: int, family: int) -> None:
    """Check that a healthy cluster has no finding, not even a warning, in repeated runs."""
    names = list(bench.nodes)[:count]
    six = {node: {"fullmesh_address": bench.nodes[node].address6} for node in names}
    inventory = bench.write_inventory(names, six if family == 6 else None)
    for _ in range(ROUNDS):
        diagnosis = bench.diagnose(inventory=inventory)
        assert not diagnosis.findings + diagnosis.at_boot, diagnosis.describe_findings()
        assert diagnosis.result["plan"]["family"] == f"ipv{family}"
        assert len(diagnosis.result["links"]) == count * (count - 1)
        assert {link["verdict"] for link in diagnosis.result["links"]} == {"open"}


def check_both_faults(bench: Bench, faults: Sequence[Fault]) -> None:
    """Check that two faults on different nodes each have their finding, and that there is no third."""
    inventory = bench.write_inventory(list(bench.nodes)[:2])
    with ExitStack() as stack:
        for fault in faults:
            stack.enter_context(make_fault(bench, fault))
        diagnosis = bench.diagnose(inventory=inventory)
    expected_fields = sorted(
        (CASES[fault.case][0].code, choose_roles(bench, fault)[0]) for fault in faults
    )
    assert expected_fields[0][1] != expected_fields[1][1]
    found = sorted((finding["code"], finding["node"]) for finding in diagnosis.findings)
    assert found == expected_fields, diagnosis.describe_findings()
    second_diagnosis = bench.diagnose(inventory=inventory)
    assert not second_diagnosis.findings + second_diagnosis.at_boot, (
        second_diagnosis.describe_findings()
    )
