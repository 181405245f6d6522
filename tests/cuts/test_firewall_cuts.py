"""Cuts by the firewall, with the same transaction: firewalld runs on both nodes and lets ssh in."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable

import pytest
import yaml
from plays import run

from fullmesh.roles import peer_firewall
from fullmesh.settings import ROOT

from .conftest import RESULTS, STORE, Cut, Lab, knock, settle

MakeCut = Callable[[str], Cut]
WITHOUT_SSH = """
zone = "/etc/firewalld/zones/cut.xml"
tx.arm(run, "peer_firewall", 30, [zone], ["firewall-cmd --reload"], what="a zone without ssh")
with open(zone, "w") as stream:
    stream.write('<?xml version="1.0"?><zone target="DROP"><short>cut</short><source address="{controller}"/></zone>')
print(run(["firewall-cmd", "--reload"]))
# as a unit that is enabled or a package that is installed makes it do
run(["systemctl", "daemon-reload"])
"""


def module(
    lab: Lab, module_name: str, hosts: tuple[str, ...] = ("torch_nodes",), **arguments: object
) -> str:
    """One call of a module on both nodes, or on *hosts* with further options."""
    done = subprocess.run(
        ["ansible", "-i", lab.inventory, *hosts, "-m", module_name, "-a", json.dumps(arguments)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask_firewall(
    lab: Lab, hosts: tuple[str, ...] = ("torch_nodes",), seconds: int = 60, **wired: list[str]
) -> str:
    """One call of peer_zone with the role's defaults."""
    defaults = yaml.safe_load((ROOT / "roles/peer_firewall/defaults/main.yml").read_text())
    options = {name.removeprefix("peer_firewall_"): value for name, value in defaults.items()}
    options |= {"ports": [], "others": {"controllers": [], "everybody": []}, **wired}
    request = peer_firewall.build_firewall_request(options | {"rollback_seconds": seconds})
    return module(lab, "peer_zone", hosts, request=request)


def wall(lab: Lab) -> Lab:
    """Start firewalld as a distribution does."""
    module(lab, "ansible.builtin.package", name="firewalld", update_cache=True)
    module(lab, "ansible.builtin.systemd_service", name="firewalld", state="started")
    for node in lab.nodes:
        node.run("firewall-cmd --state")
    return lab


@pytest.fixture(scope="module")
def walled(lab: Lab) -> Lab:
    """The lab with firewalld."""
    return wall(lab)


def shut_out(lab: Lab, cut: Cut) -> None:
    """A zone for the controller that drops all it sends, armed as the role arms its own."""
    with cut:
        for node in lab.nodes:
            said = node.engine(WITHOUT_SSH.format(controller=lab.controller))
            assert "success" in said
            assert not knock(node, lab.controller), "the zone lets ssh in"


def test_firewall_zone_without_ssh(walled: Lab, cut: MakeCut) -> None:
    shut_out(walled, cut("firewall zone without ssh"))


@pytest.mark.rest
def test_peer_list_without_the_controller(walled: Lab, cut: MakeCut) -> None:
    """The controller is in no list, and keeps its way in all the time: it is taken from the live connection."""
    peers = [node.planned.split("/")[0] for node in walled.nodes]
    with cut("peer list without the controller"):
        said = ask_firewall(walled, seconds=40, peers=peers, controllers=[], ports=["29500/tcp"])
        assert said.count("armed: true") + said.count('"armed": true') == 2
        for node in walled.nodes:
            assert "fullmesh-job" in node.run("firewall-cmd --get-active-policies")
        # Nobody confirms it.
        end = time.monotonic() + 150
        while any(
            node.run(f"ls {STORE}/*/armed 2> /dev/null | wc -l") != "0" for node in walled.nodes
        ):
            assert time.monotonic() < end
            time.sleep(1)


@pytest.mark.rest
def test_an_undo_while_a_change_waits_for_its_confirmation(walled: Lab, cut: MakeCut) -> None:
    """The run was killed and the undo is started at once: nothing may be put back over what it gives back."""
    with cut("undo while a change waits for its confirmation"):
        peers = [node.planned.split("/")[0] for node in walled.nodes]
        ask_firewall(walled, seconds=30, peers=peers, controllers=[])
        assert any(not node.idle() for node in walled.nodes)
        command = ("ansible-playbook", "playbooks/undo.yml", "-i", walled.inventory)
        assert run(*command, "--tags", "peer_firewall").code == 0
        assert all(node.idle() for node in walled.nodes)
        for node in walled.nodes:
            assert "restored in" in node.log()


OURS = [
    *(f"/etc/firewalld/policies/fullmesh-{name}.xml" for name in ("ssh", "job")),
    *(f"/etc/firewalld/ipsets/fullmesh-{name}4.xml" for name in ("peers", "controllers")),
]
PUBLIC = "/etc/firewalld/zones/public.xml"
# In force with the next reload, which is the transaction's own.
WITHOUT_ANYTHING = f"""
with open("{PUBLIC}", "w") as stream:
    stream.write('<?xml version="1.0" encoding="utf-8"?><zone><short>Public</short></zone>')
"""
ZONE_WITHOUT_SSH = WITHOUT_ANYTHING + 'print(run(["firewall-cmd", "--reload"]))'
GIVE_UP = 'print(tx.undone(run, "peer_firewall", "the test has seen enough")["why"])'


@pytest.mark.rest
def test_an_undo_that_shuts_ssh(walled: Lab, cut: MakeCut) -> None:
    """The zone has lost ssh since our policy lets the controller in: without the policy nobody gets in any more."""
    before = {"paths": OURS, "services": ["firewalld.service"], "packages": ["firewalld"]}
    module(walled, "undo_point", role="peer_firewall", **before)
    peers = [node.planned.split("/")[0] for node in walled.nodes]
    ask_firewall(walled, seconds=0, peers=peers, controllers=[walled.controller])
    module(walled, "undo_point", role="peer_firewall", state="written")
    undo = ("ansible-playbook", "playbooks/undo.yml", "-i", walled.inventory)
    undo += ("--tags", "peer_firewall", "-e", "peer_firewall_rollback_seconds=40")
    for node in walled.nodes:
        assert "success" in node.engine(ZONE_WITHOUT_SSH)
        assert knock(node, walled.controller), "the policy does not let ssh in"
    try:
        with cut("undo that shuts ssh"):
            done = run(*undo)
            assert done.code != 0
            assert done.says("[PF-121] no new connection after the firewall changed")
            assert done.says("What was here before does not let you in: let your address in there")
            assert {host: one["failed"] for host, one in done.recap().items()} == {
                node.name: 1 for node in walled.nodes
            }
    finally:
        for node in walled.nodes:
            node.run(f"rm -f {PUBLIC}; firewall-cmd --reload")
    assert run(*undo).code == 0
    for node in walled.nodes:
        assert node.idle()
        assert "fullmesh" not in node.run("ls /etc/firewalld/policies; nft list ruleset")
        assert "peer_firewall" not in node.run("ls /var/lib/fullmesh/undo 2> /dev/null || true")


@pytest.mark.rest
def test_through_a_jump_host(walled: Lab) -> None:
    """The play comes in over the other node. With the reload ssh shuts for everybody, but not for that way."""
    jump, node = walled.nodes
    before = node.state()
    way = walled.through(jump)
    extra = {"ansible_ssh_extra_args": "-o " + shlex.quote(way)}
    # a control socket of its own: a connection that is there already would not take the way
    hosts = (node.name, "-e", json.dumps(extra), "-e", "ansible_control_path=none")
    node.engine(WITHOUT_ANYTHING)
    try:
        assert walled.login(node, "-o", way).split()[0] == jump.address
        own = [node.planned.split("/")[0]]
        said = ask_firewall(walled, hosts, 300, peers=own, controllers=[])
        assert jump.address in said, said
        assert not knock(node, walled.controller), "the firewall was not tightened"
        assert walled.login(node, "-o", way).split()[0] == jump.address
        assert "seen enough" in node.engine(GIVE_UP)
    finally:
        node.run(f"rm -f {PUBLIC}; firewall-cmd --reload")
    settle(node, before)
    walled.login(node)
    RESULTS.append(("the way through a jump host stays open", node.name, 0.0))
