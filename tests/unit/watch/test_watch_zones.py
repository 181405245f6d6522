"""watch: zones of firewalld, options and names."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import fullmesh_watch_judge as watch_judge
import fullmesh_watch_look as watch_look
import pytest
from watch_job import JOB, build_environment, free_port

ZONES = "fullmesh\n  sources: ipset:fullmesh-peers4 10.78.0.12\npublic (default)\n  interfaces: eth0 eth1\n"


INFO = """fullmesh (active)
  target: {target}
  services: ssh
  ports: 22/tcp 29400/tcp 50000-54095/tcp 29500/udp
  rich rules: {rich}
"""


def test_active_zones_are_parsed() -> None:
    assert watch_look.parse_active_zones(ZONES) == [
        ("fullmesh", "sources", ["ipset:fullmesh-peers4", "10.78.0.12"]),
        ("public", "interfaces", ["eth0", "eth1"]),
    ]


@pytest.mark.parametrize(
    ("port", "target", "rich", "expected"),
    [
        (29400, "default", "", True),
        (50777, "default", "", True),
        (29500, "default", "", False),
        (29500, "ACCEPT", "", True),
        (29500, "default", 'rule family="ipv4" port port="29500" protocol="tcp" accept', True),
    ],
)
def test_open_port_of_a_zone_is_found(port: int, target: str, rich: str, expected: bool) -> None:
    assert watch_look.is_port_open_in(INFO.format(target=target, rich=rich), port) is expected


@pytest.mark.parametrize(
    ("address", "zone"), [("10.78.0.12", "fullmesh"), ("10.78.0.13", "public")]
)
def test_zone_of_a_peer_is_found(address: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_command(*command: str) -> str:
        if command[1] == "--get-active-zones":
            return ZONES
        return "no" if "query-entry" in command[-1] else INFO.format(target="default", rich="")

    monkeypatch.setattr(watch_look, "capture_command", answer_command)
    monkeypatch.setattr(
        watch_look.sockets, "find_path_to", lambda _: {"dev": "eth1", "neighbour": "reachable"}
    )
    assert watch_look.find_zone_of(address) == zone
    assert watch_look.find_blocking_zone(address, 29500) == zone
    assert watch_look.find_blocking_zone(address, 29400) == ""


# As firewalld 1.3.3 prints it.
POLICIES = """\
allow-host-ipv6
  ingress-zones: ANY
  egress-zones: HOST
fullmesh-job
  ingress-zones: {0}
  egress-zones: HOST
"""


POLICY = """\
fullmesh-job (active)
  priority: -19000
  target: CONTINUE
  ingress-zones: {0}
  egress-zones: HOST
  services:
  ports:
  rich rules:
\trule family="ipv4" source ipset="fullmesh-peers4" {1}accept
"""


@pytest.mark.parametrize(
    ("ingress", "rule", "blocking_zone"),
    [
        ("ANY", 'port port="29500" protocol="tcp" ', ""),
        ("public", 'port port="29400-29600" protocol="tcp" ', ""),
        ("ANY", "", ""),
        ("internal", 'port port="29500" protocol="tcp" ', "public"),
        ("ANY", 'port port="29400" protocol="tcp" ', "public"),
    ],
)
def test_policy_opens_a_port_that_its_zone_blocks(
    ingress: str, rule: str, blocking_zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_command(*command: str) -> str:
        if command[1] == "--get-active-policies":
            return POLICIES.format(ingress)
        if command[1].startswith("--info-policy"):
            return POLICY.format(ingress, rule) if "fullmesh" in command[1] else ""
        if command[1] == "--get-active-zones":
            return "public\n  interfaces: eth0 eth1\n"
        return INFO.format(target="default", rich="").replace("29400/tcp 50000-54095/tcp", "")

    monkeypatch.setattr(watch_look, "capture_command", answer_command)
    monkeypatch.setattr(watch_look.sockets, "find_path_to", lambda _: {"dev": "eth1"})
    assert watch_look.find_blocking_zone("10.78.0.12", 29500) == blocking_zone


def test_without_firewalld_no_zone_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_look, "capture_command", lambda *_: "")
    assert watch_look.find_blocking_zone("10.78.0.12", 29500) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.11:29400", ("10.0.0.11", 29400)),
        ("[fd78::11]:29400", ("fd78::11", 29400)),
        ("node-a", ("node-a", 0)),
        ("node-a:", ("node-a:", 0)),
    ],
)
def test_endpoints_are_split(text: str, expected: tuple[str, int]) -> None:
    assert watch_look.split_endpoint(text) == expected


def test_options_are_found_in_both_spellings() -> None:
    assert watch_look.find_option(["torchrun", "--rdzv-endpoint=a:1"], watch_look.ENDPOINT) == "a:1"
    assert (
        watch_look.find_option(["torchrun", "--rdzv_endpoint", "a:1", "x.py"], watch_look.ENDPOINT)
        == "a:1"
    )
    assert watch_look.find_option(["torchrun", "--rdzv-endpoint"], watch_look.ENDPOINT) == ""
    assert watch_look.find_option(["torchrun", "--nnodes=2", "--nnodes=1"], watch_look.NODES) == "1"


def test_a_probe_reports_the_kernel_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert watch_look.probe_endpoint("127.0.0.1", port) == "open"
    assert watch_look.probe_endpoint("127.0.0.1", port) == "refused"


def test_names_are_resolved_without_waiting_and_cleaned() -> None:
    names = watch_look.NameResolver()
    assert names.addresses("127.0.0.1") == ["127.0.0.1"]
    assert names.addresses("no-such-name.invalid", 30) == []


def test_snapshot_of_a_real_job_shows_its_connections() -> None:
    port = str(free_port())
    job_environment = build_environment(
        RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, LASTS="60"
    )
    parent_script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {JOB!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent_script],
        env=job_environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "listening\n"
        snapshot = watch_look.observe_job(job.pid)
        ranks = [p for p in snapshot["processes"] if p["rank"] == 0]
        assert ranks
        assert {p["port"] for p in ranks} == {int(port)}
        assert watch_judge.is_hosted_here(snapshot, int(port))
        with socket.create_connection(("127.0.0.1", int(port))):
            deadline = time.monotonic() + 30
            while (
                not watch_judge.count_peer_connections(snapshot, int(port))
                and time.monotonic() < deadline
            ):
                snapshot = watch_look.observe_job(job.pid)
            assert watch_judge.count_peer_connections(snapshot, int(port)) == {"127.0.0.1": 1}
        for pid in watch_look.list_process_tree(job.pid):
            os.kill(pid, signal.SIGKILL)
