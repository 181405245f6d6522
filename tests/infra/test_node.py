"""Check the state of a configured node."""

from __future__ import annotations

import re
import shlex
from typing import Any


def test_master_address_is_reachable_over_the_cluster_interface(
    host: Any, env: dict[str, str]
) -> None:
    interface = env["GLOO_SOCKET_IFNAME"].split(",")[0]
    route = host.check_output("ip -o route get %s", env["MASTER_ADDR"])
    own = env["MASTER_ADDR"] in host.check_output("ip -o addr show dev %s", interface)
    assert own or f"dev {interface} " in route


def test_own_name_is_no_loopback(host: Any) -> None:
    name = host.check_output("hostname")
    first = host.check_output("getent ahosts %s", name).split()[0]
    assert not first.startswith("127.")
    assert first != "::1"


def test_the_kernel_takes_ports_from_the_open_range(host: Any) -> None:
    first, last = host.sysctl("net.ipv4.ip_local_port_range").split()
    if host.run("systemctl is-active firewalld").rc == 0:
        rules = host.check_output("firewall-cmd --policy=fullmesh-job --list-rich-rules")
        everything = re.search(r'source ipset="fullmesh-peers[46]" accept', rules)
        assert f'port port="{first}-{last}" protocol="tcp" accept' in rules or everything


def test_no_rule_opens_a_whole_protocol(host: Any) -> None:
    # ansible.posix before 1.5.4 turned one port into <protocol value="tcp"/> (ansible.posix#451)
    places = "/etc/firewalld/zones /etc/firewalld/policies"
    assert host.run(f"grep -rs 'protocol value=.tcp.' {places}").stdout == ""


def test_named_ports_are_reserved(host: Any, env: dict[str, str]) -> None:
    assert env["MASTER_PORT"] in str(host.sysctl("net.ipv4.ip_local_reserved_ports"))


def test_buffers_and_timeouts(host: Any) -> None:
    assert int(host.sysctl("net.ipv4.tcp_fin_timeout")) == 30
    assert int(host.sysctl("net.ipv4.tcp_max_syn_backlog")) >= 4096
    assert int(host.sysctl("net.core.rmem_max")) >= 16777216
    assert int(host.sysctl("net.core.wmem_max")) >= 16777216


def test_torch_has_gloo(host: Any) -> None:
    code = "import torch.distributed as d; assert d.is_gloo_available()"
    assert host.run("/opt/fullmesh/venv/bin/python -W ignore -c %s", code).rc == 0


def test_the_manifest_is_true(host: Any, manifest: dict[str, Any]) -> None:
    assert manifest["schema"] == 1
    digests = {
        path: state.split()[0]
        for path, state in manifest["state"]["file"].items()
        if len(state.split()[0]) == 64
    }
    # one question for all: each costs a login
    said = host.check_output("sha256sum -- " + " ".join(shlex.quote(path) for path in digests))
    seen = dict(reversed(line.split(None, 1)) for line in said.splitlines())
    assert seen == digests
