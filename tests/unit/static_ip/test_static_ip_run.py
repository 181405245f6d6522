"""static_ip: a run that changes nothing, check mode, and adopted interfaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import links as network_links
from network_samples import link
from static_ip_node import NET, OURS, Machine, kernel, way


def test_the_second_run_changes_nothing(machine: Machine) -> None:
    first = machine.run()
    assert (first["changed"], first["providers"]) == (True, {"eth1": machine.owner})
    assert machine.ours() == [str(machine.root) + path for path in first["files"]]
    assert Path(machine.ours()[0]).stat().st_mode & 0o777 == 0o600
    assert machine.run()["changed"] is False


def test_check_mode_writes_nothing_and_shows_all(machine: Machine) -> None:
    result = machine.call(check=True)
    assert (result["changed"], result["armed"]) == (True, False)
    assert len(result["diff"]) == 2
    assert result["paths"] == result["files"]
    assert machine.ours() == []
    assert not (machine.root / "store").exists()


def test_a_lost_address_is_restored(machine: Machine) -> None:
    machine.run()
    machine.kernel = [kernel()]
    result = machine.run()
    assert (result["changed"], result["lacking"]) == (
        True,
        ["10.0.0.11/24 is not on eth1 (it has no address)"],
    )


def test_an_interface_that_is_as_wanted_is_adopted(machine: Machine) -> None:
    machine.kernel = [kernel(OURS)]
    assert machine.run()["adopted"] == ["eth1"]
    words = machine.commands()
    assert not [word for word in words if "connection up" in word or "reconfigure" in word]


def brought_up(machine: Machine) -> bool:
    return any("connection up" in one or "reconfigure eth1" in one for one in machine.commands())


@pytest.mark.parametrize(
    ("seen", "routes", "words"),
    [
        (kernel(OURS, {"local": "10.0.0.15"}), [NET], "10.0.0.15/24 on eth1"),
        (kernel(OURS, {"local": "10.0.0.15", "dynamic": True}), [NET], "10.0.0.15/24 on eth1"),
        (kernel(OURS), [NET, way(via="10.7.0.1")], "the route to 0.0.0.0/0 via 10.7.0.1"),
        (kernel(OURS), [{"dst": "10.9.0.1", "dev": "eth1"}], "10.9.0.1/32 via the link"),
        (kernel(OURS, mtu=9000), [NET], "the MTU 9000 of eth1"),
    ],
)
def test_settings_that_new_files_lose_are_tried_and_not_kept(
    machine: Machine, seen: dict[str, Any], routes: list[dict[str, Any]], words: str
) -> None:
    """It would work until the next boot, and be confirmed by that."""
    machine.kernel, machine.routes = [seen], {"-4": routes}
    result = machine.run()
    assert (result["adopted"], result["lacking"]) == ([], [])
    assert words in result["diff"][-1]["before"]
    assert brought_up(machine)
    # later additions of others are not changes of the role
    machine.kernel = [seen]
    assert machine.run()["changed"] is False


def test_kernel_and_link_routes_are_not_surplus(machine: Machine) -> None:
    routes = [NET, way(metric=100, protocol="static"), way(dev="eth0")]
    machine.kernel, machine.routes = [kernel(OURS)], {"-4": routes}
    assert machine.run(links=[link(gateway="10.0.0.1")])["adopted"] == ["eth1"]


def test_a_mac_that_matches_no_nic_is_tried_and_not_kept(machine: Machine) -> None:
    """The kernel has all; but a profile that matches no card brings nothing up at the next boot."""
    machine.kernel = [kernel(OURS)]
    assert machine.run(links=[link(mac="02:00:00:00:00:0a")])["adopted"] == []
    assert brought_up(machine)


@pytest.mark.parametrize("more", [{"dns": ["10.0.0.53"]}, {"search": ["lab.example"]}])
def test_changed_name_servers_are_tried_and_not_kept(
    machine: Machine, more: dict[str, Any]
) -> None:
    machine.kernel = [kernel(OURS)]
    assert machine.run()["adopted"] == ["eth1"]
    assert not brought_up(machine)
    for links in ([link(**more)], [link()]):
        machine.asked.clear()
        assert machine.run(links=links)["adopted"] == []
        assert brought_up(machine)


def test_our_connection_moves_from_an_address_that_the_files_drop(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.15", "22"]
    )
    machine.kernel = [kernel(OURS, {"local": "10.0.0.15", "dynamic": True})]
    assert machine.call(check=True)["moves_to"] == "10.0.0.11"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("have", [OURS, {"local": "10.0.0.15", "dynamic": True}])
def test_a_default_route_that_no_link_names_is_refused(
    machine: Machine, have: dict[str, Any], check: bool
) -> None:
    machine.kernel, machine.routes = [kernel(have)], {"-4": [NET, way(protocol="dhcp")]}
    words = r"IP-119\] eth1 carries the IPv4 default.*10\.0\.0\.1\).*fullmesh_links: \[\{interface: eth1, "
    words += r'addresses: \["10\.0\.0\.11/24"\], gateway: 10\.0\.0\.1\}\]'
    with pytest.raises(network_links.LinkError, match=words):
        machine.call(check=check)
    assert machine.ours() == []
    assert not (machine.root / "store").exists()
    assert machine.run(links=[link(gateway="10.0.0.1")])["changed"]
