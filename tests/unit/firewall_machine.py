"""Shared by the tests of the peers' firewall: a simulated machine, zones, policies and rules."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld_files,
    ufw,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.state import record
from ansible.module_utils.fullmesh.transaction import engine
from rehearsal import rehearse_rollback

PEERS = ["10.0.0.11", "10.0.0.12", "fd00::11"]


WANT: dict[str, Any] = {
    "zone": "fullmesh",
    "mode": "peers_range",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "controller_ports": [],
    "public_ports": [],
    "tunnel_peers": [],
    "tunnel_ports": [],
    "ssh_ports": [22],
    "own_service": False,
    "ufw_policy": "",
}


def render_files(**change: Any) -> dict[str, str]:
    return {
        path: text for path, text in firewalld_files.render_own_files(WANT | change).items() if text
    }


ZONE_FILE = "/etc/firewalld/zones/fullmesh.xml"


JOB_FILE = "/etc/firewalld/policies/fullmesh-job.xml"


def write_file(root: Path, path: str, text: str) -> None:
    target = Path(str(root) + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


PUBLIC = '<zone><service name="ssh"/><port port="8000-8010" protocol="tcp"/></zone>'


ZONES = """\
public (active)
  target: default
  interfaces: eth0
  sources:
  services: dhcpv6-client ssh
  ports:
  rich rules:
	rule family="ipv4" source address="192.0.2.1" accept
"""


BOUND = ZONES.replace("public", "{0}") + "\n" + ZONES.replace("eth0", "")


POLICIES = """\
allow-host-ipv6 (active)
  priority: -15000
  target: CONTINUE
  ingress-zones: ANY
  egress-zones: HOST
  services: {0}

fullmesh-ssh (active)
  priority: -20000
  services: {1}
"""


def build_rule(chain: str, *expressions: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "inet", "chain": chain, "handle": 7, "expr": list(expressions)}}


def match_tcp_port(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def match_udp_port(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "udp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def match_source(name: str) -> dict[str, Any]:
    left = {"payload": {"protocol": "ip", "field": "saddr"}}
    return {"match": {"op": "==", "left": left, "right": "@" + name}}


ACCEPT: dict[str, Any] = {"accept": None}


JOB = "filter_IN_policy_fullmesh-job"


def build_jump(chain: str, target: str) -> dict[str, Any]:
    return build_rule(chain, {"jump": {"target": target}})


def build_job_rule(*matches: dict[str, Any], family: str = "4") -> dict[str, Any]:
    """Build a rule of the peers' policy, as firewalld 1.3.3 loads it."""
    return build_rule(JOB + "_allow", match_source("fullmesh-peers" + family), *matches, ACCEPT)


def build_ruleset() -> list[dict[str, Any]]:
    ssh = "filter_IN_policy_fullmesh-ssh"
    ports = (22, 29500, {"range": [50000, 54095]})
    return [
        {"metainfo": {"version": "1.0.6"}},
        {"set": {"name": "fullmesh-peers4", "elem": ["10.0.0.12", "10.0.0.11"]}},
        {"set": {"name": "fullmesh-peers6", "elem": ["fd00::11"]}},
        {"set": {"name": "fullmesh-controllers4", "elem": ["198.51.100.7"]}},
        build_jump("filter_INPUT_POLICIES_pre", ssh),
        build_jump("filter_INPUT_POLICIES_pre", JOB),
        build_rule("filter_INPUT_ZONES", {"goto": {"target": "filter_IN_public"}}),
        build_jump(ssh, ssh + "_allow"),
        build_jump(JOB, JOB + "_allow"),
        *(build_job_rule(match_tcp_port(port), family=family) for family in "46" for port in ports),
        build_rule(
            ssh + "_allow", match_source("fullmesh-controllers4"), match_tcp_port(22), ACCEPT
        ),
        build_rule("filter_IN_public_allow", match_tcp_port(22), ACCEPT),
    ]


def build_ruleset_of_zone() -> list[dict[str, Any]]:
    """Build the ruleset of earlier versions, which also binds the peers to Fullmesh's zone."""
    goto = {"goto": {"target": "filter_IN_fullmesh"}}
    bound = [
        build_rule("filter_INPUT_ZONES", match_source("fullmesh-peers" + f), goto) for f in "46"
    ]
    return [*build_ruleset(), *bound]


def build_ruleset_without(text: str) -> list[dict[str, Any]]:
    return [item for item in build_ruleset() if text not in json.dumps(item)]


class Machine:
    """Simulate systemctl, firewall-cmd and nft."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {firewall_peers.UNIT: ("loaded", "inactive", "disabled")}
        self.table: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.table_after = build_ruleset()
        self.foreign_rules: list[dict[str, Any]] = []
        self.answers: dict[str, str] = {"iptables-save": "", "ip6tables-save": "", "ip": ""}
        self.outputs: dict[str, str] = {}
        self.fails = ""

    def run(self, argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        self.calls.append(line)
        if self.fails and self.fails in line:
            return 1, "it does not work"
        rehearse_rollback(argv)
        if argv[:2] == ["systemctl", "show"]:
            states = [
                self.units.get(n, ("not-found", "inactive", ""))
                for n in argv[argv.index("--") + 1 :]
            ]
            text = "LoadState={}\nActiveState={}\nUnitFileState={}\n"
            return 0, "\n".join(text.format(*state) for state in states)
        if argv[0] == "nft":
            rules = self.foreign_rules if line.endswith("ruleset") else self.table
            return 0, json.dumps({"nftables": rules})
        if line in self.outputs:
            return 0, self.outputs[line]
        if line.endswith("list-all-zones"):
            return 0, ZONES
        if "start firewalld" in line or line == "firewall-cmd --reload":
            self.table = self.table_after
        return 0, self.answers.get(argv[0], "")

    def commands(self) -> str:
        queries = (" show", "nft ", "-save", "get-zone")
        return "\n".join(call for call in self.calls if not any(word in call for word in queries))


PARAMS: dict[str, Any] = {
    "state": "present",
    "mode": "peers_range",
    "zone": "fullmesh",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "controller_ports": [],
    "public_ports": [],
    "tunnel_peers": [],
    "tunnel_ports": [],
    "rdma": "auto",
    "ufw": "carry",
    "start": "refuse",
    "rollback_seconds": 60,
    "token": "run",
}


def make_firewall(machine: Machine, check: bool = False, **change: Any) -> firewall_peers.Firewall:
    return firewall_peers.Firewall(PARAMS | change, check, machine.run, str(machine.root))


def expect_refusal(machine: Machine, **change: Any) -> str:
    with pytest.raises(firewall_peers.FirewallRefusedError) as caught:
        make_firewall(machine, **change).present()
    return str(caught.value)


def list_own_files(machine: Machine) -> list[str]:
    return sorted(
        path
        for path in firewalld_files.map_own_paths("fullmesh").values()
        if os.path.exists(str(machine.root) + path)
    )


SSH_RULE = "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n"


def enable_ufw(machine: Machine, rules: str = "") -> None:
    """Install and enable ufw."""
    write_file(machine.root, ufw.COMMAND, "")
    write_file(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED = yes\n")
    write_file(machine.root, "/etc/ufw/user.rules", rules + SSH_RULE)


RULES = """\
### tuple ### allow tcp 8080 0.0.0.0/0 any 0.0.0.0/0 in
### tuple ### allow tcp 9100 0.0.0.0/0 any 0.0.0.0/0 in_eth0
"""


def prepare_ufw_takeover(machine: Machine, fails: str = "") -> firewall_peers.Firewall:
    enable_ufw(machine, RULES.splitlines(keepends=True)[0])
    machine.answers["/usr/sbin/ufw"] = "Status: active\n"
    chain = "filter_IN_policy_fullmesh-ufw_post"
    accepts = [build_rule(chain, match_tcp_port(port), {"accept": None}) for port in (8080, 22)]
    machine.table_after = [*build_ruleset(), *accepts]
    machine.fails = fails
    return make_firewall(machine)


def save_undo_point(machine: Machine, *, active: bool) -> None:
    """Save the role's undo point, with the state of firewalld before its first run."""
    unit = {"found": True, "active": active, "enabled": ""}
    before = record.make_empty_record("peer_firewall") | {"services": {firewall_peers.UNIT: unit}}
    record.UndoPoint(str(machine.root), "peer_firewall").save(before, {})


# Without units that are part of firewalld (PartOf=), such as fail2ban.
STOP_COMMAND = "systemctl stop --job-mode=ignore-dependencies firewalld.service"


def read_journal() -> engine.Journal:
    return cast("engine.Journal", engine.read_json(f"{engine.STORE}/peer_firewall/journal.json"))


OLD_ZONE = f"""<?xml version="1.0" encoding="utf-8"?>
<!-- {firewalld_files.MARK} -->
<zone>
  <short>fullmesh</short>
  <source ipset="fullmesh-peers4"/>
  <port port="29500" protocol="tcp"/>
</zone>
"""


# /proc/net of a lab node: sshd; listeners on 8000, 8001 (IPv6), 8003 (eth1's address), 50010, 2049/udp; on loopback
# 8002 and 323/udp; a DHCP client, LLMNR, a connected and a nameless UDP client; one peer connected to 8000.
SOCKET_FILES = Path(__file__).parent / "data/sockets"


OWNERS = {"348453": "python3", "348458": "nfsd", "348454": "python3"}


ADDRESSES = """\
2: eth0    inet 10.77.1.11/24 brd 10.77.1.255 scope global eth0
3: eth1    inet 10.78.1.11/24 scope global eth1
"""


ONLY_SSH = '<zone><service name="ssh"/></zone>'


def remove_firewall(machine: Machine) -> Machine:
    """Make a node that never had a firewall, with its listeners."""
    for name in ("tcp", "tcp6", "udp", "udp6"):
        write_file(
            machine.root, "/proc/net/" + name, (SOCKET_FILES / name).read_text(encoding="utf-8")
        )
    write_file(machine.root, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    for pid, inode in enumerate(OWNERS, 580):
        write_file(machine.root, f"/proc/{pid}/comm", OWNERS[inode] + "\n")
        place = Path(f"{machine.root}/proc/{pid}/fd")
        place.mkdir()
        (place / "3").symlink_to(f"socket:[{inode}]")
    write_file(machine.root, "/etc/firewalld/zones/public.xml", ONLY_SSH)
    machine.answers["ip"] = ADDRESSES
    return machine


def build_foreign_rules(port: int) -> list[dict[str, Any]]:
    """Build a table of the user that drops a port."""
    chain = {"family": "inet", "table": "mine", "name": "in", "hook": "input", "prio": 0}
    drop = {
        "family": "inet",
        "table": "mine",
        "chain": "in",
        "handle": 4,
        "expr": [match_tcp_port(port), {"drop": None}],
    }
    return [{"chain": chain | {"policy": "accept"}}, {"rule": drop}]


AUDIT = 'type=AVC msg=audit({}.497:9): avc:  denied  {{ write }} for  pid=239 comm="firewalld" '


AUDIT += "scontext=system_u:system_r:firewalld_t:s0 tcontext=system_u:object_r:lib_t:s0 tclass=file permissive=0"
