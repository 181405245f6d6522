"""A cluster on IPv6, with an outsider on the cluster network, and two ranks on each node."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from plays import read_output, run

from fullmesh.settings import ROOT

from .conftest import load_latest_result, site

LAB = "e2e-v6"
# its own results, because this file runs at the same time as test_site.py
RUNS = ROOT / ".fullmesh/runs-e2e-v6"
MORE = ("-e", "fullmesh_local_ranks=2", "-e", f"verify_cluster_runs_dir={RUNS}")

SCAN = """
import socket, sys
found = []
for port in map(int, sys.argv[2:]):
    probe = socket.socket(socket.AF_INET6)
    probe.settimeout(2)
    try:
        probe.connect((sys.argv[1], port))
        found.append(port)
    except OSError:
        pass
    probe.close()
print(found)
"""
LISTEN = """
import socket, sys, time
held = [socket.create_server(("::", int(port)), family=socket.AF_INET6) for port in sys.argv[1:]]
print("listening", flush=True)
time.sleep(60)
"""


def read_status() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
    )
    return found


@pytest.fixture(scope="module")
def inventory() -> Iterator[str]:
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB, "--ipv6", "--outsider").code == 0
    yield read_status()["inventory"].rsplit("/", 1)[0]
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_ipv6_from_bare_nodes_to_a_verified_collective(inventory: str) -> None:
    done = site(*MORE, inventory=inventory)
    assert done.code == 0
    result = load_latest_result(RUNS)
    assert (result["verdict"], result["plan"]["family"]) == ("ok", "ipv6")
    assert result["plan"]["world_size"] == 4
    passed_checks = {rung["id"] for rung in result["rungs"] if rung["status"] == "passed"}
    assert passed_checks == {f"L{number}" for number in range(9)} - {"L7"}  # no GPU here
    again = site(*MORE, inventory=inventory)
    assert (again.code, set(again.changed().values())) == (0, {0})


def test_diagnosis_of_the_healthy_cluster_has_no_finding(inventory: str) -> None:
    command = ("./fullmesh", "diagnose", "-i", inventory, "--json", "--", *MORE[:2])
    result = json.loads(read_output(*command, seconds=300))
    assert result["findings"] == []
    assert (result["plan"]["family"], len(result["links"])) == ("ipv6", 2)
    assert {link["verdict"] for link in result["links"]} == {"open"}


def run_on_node(node: str, *command: str) -> list[str]:
    return ["./fullmesh", "lab", "exec", "--name", LAB, node, "--", *command]


def test_peers_and_outsider_reach_the_expected_ports(inventory: str) -> None:
    plan = load_latest_result(RUNS)["plan"]
    master, peer = list(plan["nodes"])
    outsider = next(
        node["name"] for node in read_status()["nodes"] if node["name"] not in plan["nodes"]
    )
    address = plan["nodes"][master]["address"]
    inside = plan["data_ports"]["first"] + 7
    ports = [22, plan["rendezvous"]["port"], plan["master"]["port"], inside, 20000]
    wanted = [str(port) for port in ports]
    listener = subprocess.Popen(
        run_on_node(master, "python3", "-c", LISTEN, *wanted[1:]),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert listener.stdout is not None
    assert listener.stdout.readline().strip() == "listening"
    seen = {
        who: json.loads(read_output(*run_on_node(who, "python3", "-c", SCAN, address, *wanted)))
        for who in (peer, outsider)
    }
    listener.kill()
    sys.stdout.write("\n".join(f"{who:<12} reaches {seen[who]}" for who in seen) + "\n")
    assert seen == {peer: ports[:-1], outsider: [22]}
