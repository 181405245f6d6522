"""Cut nodes off with the firewall, in the same transaction: firewalld runs on both nodes and accepts ssh."""

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
    """Call a module once on both nodes, or on *hosts* with further options."""
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
    """Call peer_zone once with the role's defaults."""
    defaults = yaml.safe_load((ROOT / "roles/peer_firewall/defaults/main.yml").read_text())
    options = {name.removeprefix("peer_firewall_"): value for name, value in defaults.items()}
    options |= {"ports": [], "others": {"controllers": [], "everybody": []}, **wired}
    request = peer_firewall.build_firewall_request(options | {"rollback_seconds": seconds})
    return module(lab, "peer_zone", hosts, request=request)


def start_firewalld(lab: Lab) -> Lab:
    """Start firewalld as a distribution does."""
    module(lab, "ansible.builtin.package", name="firewalld", update_cache=True)
    module(lab, "ansible.builtin.systemd_service", name="firewalld", state="started")
    for node in lab.nodes:
        node.run("firewall-cmd --state")
    return lab


@pytest.fixture(scope="module")
def firewalled(lab: Lab) -> Lab:
    """Start firewalld on both nodes of the lab."""
    return start_firewalld(lab)


def shut_out(lab: Lab, cut: Cut) -> None:
    """Bind the controller to a zone that drops everything, armed like a change of the role."""
    with cut:
        for node in lab.nodes:
            said = node.engine(WITHOUT_SSH.format(controller=lab.controller))
            assert "success" in said
            assert not knock(node, lab.controller), "the zone lets ssh in"


def test_firewall_zone_without_ssh(firewalled: Lab, cut: MakeCut) -> None:
    shut_out(firewalled, cut("firewall zone without ssh"))


@pytest.mark.rest
def test_peer_list_without_the_controller(firewalled: Lab, cut: MakeCut) -> None:
    """The list of peers lacks the controller, but its access is kept, because it comes from the live connection."""
    peers = [node.planned.split("/")[0] for node in firewalled.nodes]
    with cut("peer list without the controller"):
        said = ask_firewall(
            firewalled, seconds=40, peers=peers, controllers=[], ports=["29500/tcp"]
        )
        assert said.count("armed: true") + said.count('"armed": true') == 2
        for node in firewalled.nodes:
            assert "fullmesh-job" in node.run("firewall-cmd --get-active-policies")
        # No run confirms it.
        end = time.monotonic() + 150
        while any(
            node.run(f"ls {STORE}/*/armed 2> /dev/null | wc -l") != "0" for node in firewalled.nodes
        ):
            assert time.monotonic() < end
            time.sleep(1)


@pytest.mark.rest
def test_an_undo_while_a_change_waits_for_its_confirmation(firewalled: Lab, cut: MakeCut) -> None:
    """Start an undo after the run was killed. The rollback must not overwrite files that the undo restored."""
    with cut("undo while a change waits for its confirmation"):
        peers = [node.planned.split("/")[0] for node in firewalled.nodes]
        ask_firewall(firewalled, seconds=30, peers=peers, controllers=[])
        assert any(not node.idle() for node in firewalled.nodes)
        command = ("ansible-playbook", "playbooks/undo.yml", "-i", firewalled.inventory)
        assert run(*command, "--tags", "peer_firewall").code == 0
        assert all(node.idle() for node in firewalled.nodes)
        for node in firewalled.nodes:
            assert "restored in" in node.log()


OURS = [
    *(f"/etc/firewalld/policies/fullmesh-{name}.xml" for name in ("ssh", "job")),
    *(f"/etc/firewalld/ipsets/fullmesh-{name}4.xml" for name in ("peers", "controllers")),
]
PUBLIC = "/etc/firewalld/zones/public.xml"
# Takes effect at the next reload, which is the transaction's own.
WITHOUT_ANYTHING = f"""
with open("{PUBLIC}", "w") as stream:
    stream.write('<?xml version="1.0" encoding="utf-8"?><zone><short>Public</short></zone>')
"""
ZONE_WITHOUT_SSH = WITHOUT_ANYTHING + 'print(run(["firewall-cmd", "--reload"]))'
GIVE_UP = 'print(tx.undone(run, "peer_firewall", "the test has seen enough")["why"])'


@pytest.mark.rest
def test_an_undo_that_shuts_ssh(firewalled: Lab, cut: MakeCut) -> None:
    """Without our policy no ssh gets in, because the zone has lost ssh since the policy admits the controller."""
    before = {"paths": OURS, "services": ["firewalld.service"], "packages": ["firewalld"]}
    module(firewalled, "undo_point", role="peer_firewall", **before)
    peers = [node.planned.split("/")[0] for node in firewalled.nodes]
    ask_firewall(firewalled, seconds=0, peers=peers, controllers=[firewalled.controller])
    module(firewalled, "undo_point", role="peer_firewall", state="written")
    undo = ("ansible-playbook", "playbooks/undo.yml", "-i", firewalled.inventory)
    undo += ("--tags", "peer_firewall", "-e", "peer_firewall_rollback_seconds=40")
    for node in firewalled.nodes:
        assert "success" in node.engine(ZONE_WITHOUT_SSH)
        assert knock(node, firewalled.controller), "the policy does not let ssh in"
    try:
        with cut("undo that shuts ssh"):
            done = run(*undo)
            assert done.code != 0
            assert done.says("[PF-121] No new connection after the firewall changed")
            assert done.says("What was here before does not let you in: let your address in there")
            assert {host: one["failed"] for host, one in done.recap().items()} == {
                node.name: 1 for node in firewalled.nodes
            }
    finally:
        for node in firewalled.nodes:
            node.run(f"rm -f {PUBLIC}; firewall-cmd --reload")
    assert run(*undo).code == 0
    for node in firewalled.nodes:
        assert node.idle()
        assert "fullmesh" not in node.run("ls /etc/firewalld/policies; nft list ruleset")
        assert "peer_firewall" not in node.run("ls /var/lib/fullmesh/undo 2> /dev/null || true")


@pytest.mark.rest
def test_through_a_jump_host(firewalled: Lab) -> None:
    """The play connects through the other node. The reload blocks ssh for all, except on that path."""
    jump, node = firewalled.nodes
    before = node.state()
    way = firewalled.through(jump)
    extra = {"ansible_ssh_extra_args": "-o " + shlex.quote(way)}
    # A control socket of its own, because an existing connection would not use the jump host.
    hosts = (node.name, "-e", json.dumps(extra), "-e", "ansible_control_path=none")
    node.engine(WITHOUT_ANYTHING)
    try:
        assert firewalled.login(node, "-o", way).split()[0] == jump.address
        own = [node.planned.split("/")[0]]
        said = ask_firewall(firewalled, hosts, 300, peers=own, controllers=[])
        assert jump.address in said, said
        assert not knock(node, firewalled.controller), "the firewall was not tightened"
        assert firewalled.login(node, "-o", way).split()[0] == jump.address
        assert "seen enough" in node.engine(GIVE_UP)
    finally:
        node.run(f"rm -f {PUBLIC}; firewall-cmd --reload")
    settle(node, before)
    firewalled.login(node)
    RESULTS.append(("the way through a jump host stays open", node.name, 0.0))
