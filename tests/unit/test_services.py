"""Other services of the cluster: their part of the plan, invalid settings, and the open ports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.faults import InvalidInputError
from fullmesh.model import plan, service_pages, services
from fullmesh.model.service_presets import PRESETS
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import ProbePort
from fullmesh.roles import kernel_tuning, preflight
from fullmesh.settings import ROOT
from fullmesh.verify import probe_wants

OWN = {"name": "inference", "ports": ["8000/tcp", "9000-9010/udp"], "reach": "everybody"}


def cluster(*entries: object, **common: Any) -> dict[str, dict[str, Any]]:
    """Return two hosts with services."""
    own = {"fullmesh_services": list(entries), "fullmesh_controllers": ["10.9.0.1"], **common}
    return {
        "a": {"fullmesh_address": "10.0.0.11/24", "fullmesh_interface": "eth1", **own},
        "b": {"fullmesh_address": "10.0.0.12/24", "fullmesh_interface": "eth1", **own},
    }


def served(*entries: object, **common: Any) -> ClusterPlan:
    return plan.derive_plan(cluster(*entries, **common))


def list_fault_codes(*entries: object, **common: Any) -> list[str]:
    with pytest.raises(InvalidInputError) as error:
        plan.derive_plan(cluster(*entries, **common))
    return [fault.code for fault in error.value.faults]


# --- accepted settings ---------------------------------------------------------------------------


def test_a_custom_service_is_for_peers_on_every_node() -> None:
    made = served({"name": "store", "ports": [7000]})
    assert made["services"] == [
        {
            "service": "store",
            "part": "7000",
            "first": 7000,
            "last": 7000,
            "protocol": "tcp",
            "reach": ["peers"],
            "nodes": ["a", "b"],
        }
    ]


def test_a_preset_has_its_listener_and_its_clients() -> None:
    made = served("ray", fullmesh_master="b")
    by_part = {one["part"]: one for one in made["services"]}
    assert (by_part["gcs"]["first"], by_part["gcs"]["nodes"]) == (6379, ["b"])
    assert by_part["dashboard"]["reach"] == ["peers", "controllers"]
    assert by_part["workers"]["nodes"] == ["b", "a"]


def test_one_part_of_a_preset_changes_and_the_rest_stays() -> None:
    made = served({"name": "ray", "ports": {"gcs": 6400}, "reach": {"dashboard": "controllers"}})
    by_part = {one["part"]: one for one in made["services"]}
    assert by_part["gcs"]["first"] == 6400
    assert by_part["dashboard"]["reach"] == ["controllers"]
    assert by_part["node-manager"]["first"] == 6700


def test_a_service_runs_on_the_named_nodes() -> None:
    made = served({"name": "api", "ports": [8000], "nodes": ["master"]}, fullmesh_master="b")
    assert services.list_open_ports(made, "peers", "a") == made["open_ports"]
    assert services.list_open_ports(made, "peers", "b") == [*made["open_ports"], "8000/tcp"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_every_preset_fits_into_the_default_plan(preset: Any) -> None:
    assert [one["part"] for one in served(preset.name)["services"]] == [
        one.part for one in preset.ports
    ]


def test_all_presets_fit_together() -> None:
    assert served(*(preset.name for preset in PRESETS))


# --- invalid settings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("rays", "PL-130"),
        (7, "PL-130"),
        ({"ports": [7000]}, "PL-130"),
        ({"name": "My Service", "ports": [7000]}, "PL-130"),
        ({"name": "api", "port": 7000}, "PL-130"),
        ({"name": "api"}, "PL-131"),
        ({"name": "api", "ports": []}, "PL-131"),
        ({"name": "api", "ports": ["8000-7000"]}, "PL-131"),
        ({"name": "api", "ports": ["20-80"]}, "PL-131"),
        ({"name": "api", "ports": [0]}, "PL-131"),
        ({"name": "api", "ports": [7000], "reach": ["none", "peers"]}, "PL-132"),
        ({"name": "api", "ports": [22]}, "PL-131"),
        ({"name": "api", "ports": [True]}, "PL-131"),
        ({"name": "api", "ports": ["8000/sctp"]}, "PL-131"),
        ({"name": "api", "ports": ["8000-70000/tcp"]}, "PL-131"),
        ({"name": "ray", "ports": [6379]}, "PL-131"),
        ({"name": "ray", "ports": {"head": 6379}}, "PL-131"),
        ({"name": "api", "ports": [7000], "reach": "friends"}, "PL-132"),
        ({"name": "api", "ports": [7000], "reach": []}, "PL-132"),
        ({"name": "ray", "reach": {"board": "peers"}}, "PL-132"),
        ({"name": "api", "ports": [7000], "nodes": ["c"]}, "PL-133"),
        ({"name": "api", "ports": [7000], "nodes": []}, "PL-133"),
        ({"name": "api", "ports": [50010]}, "PL-110"),
        ({"name": "api", "ports": ["49000-50000/udp"]}, "PL-110"),
        ({"name": "api", "ports": [29500]}, "PL-111"),
        ({"name": "api", "ports": ["29000-29400"]}, "PL-111"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(entry: object, code: str) -> None:
    assert list_fault_codes(entry) == [code]


def test_services_on_one_node_do_not_conflict() -> None:
    api = {"name": "api", "ports": ["10500-10600"]}
    assert list_fault_codes("ray", api) == ["PL-111"]
    assert list_fault_codes("ray", "ray") == ["PL-130"]
    one = {"name": "one", "ports": [8000], "nodes": ["a"]}
    assert served(one, {"name": "two", "ports": [8000], "nodes": ["b"]})
    assert served(one, {"name": "two", "ports": ["8000/udp"]})


def test_ports_of_others_are_unchanged() -> None:
    api = {"name": "api", "ports": ["9100-9101"]}
    assert list_fault_codes(api, monitoring_tools_node_exporter=True) == ["PL-111"]
    assert served({"name": "api", "ports": [9100]}, monitoring_tools_node_exporter=True)
    with pytest.raises(InvalidInputError, match=r"\[PL-111\].* ssh on b 2222"):
        plan.derive_plan(
            cluster({"name": "api", "ports": [2222]}), ssh={"b": plan.InventorySsh(2222)}
        )


def test_privileged_ports_are_opened_but_not_tested() -> None:
    made = served({"name": "web", "ports": [443, "1000-1030", "8443/udp"]})
    assert services.list_open_ports(made, "peers")[-3:] == ["443/tcp", "1000-1030/tcp", "8443/udp"]
    assert services.list_probe_ports(made, "a") == [1030]
    assert probe_wants.describe_untried_ports(made) == [
        "opened and not tried: web 443/tcp, web 1000-1030/tcp, web 8443/udp"
    ]


def test_a_service_with_reach_none_is_opened_to_no_client() -> None:
    made = served({"name": "own", "ports": ["7000-7009"], "reach": "none"})
    assert "7000-7009" in made["reserved_ports"]
    assert services.list_probe_ports(made, "a") == []
    assert probe_wants.describe_untried_ports(made) == []
    for reach in services.REACHES:
        assert "7000-7009/tcp" not in services.list_open_ports(made, reach)


def test_every_fault_is_reported_at_once() -> None:
    found = list_fault_codes("rays", {"name": "api", "ports": [22, 50010], "reach": "friends"})
    assert found == ["PL-130", "PL-131", "PL-132"]
    assert list_fault_codes({"name": "api", "ports": [29500, 50010]}) == ["PL-110", "PL-111"]


def test_a_value_that_is_no_list_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\[PL-130\] fullmesh_services is 'ray'"):
        plan.derive_plan(cluster(fullmesh_services="ray"))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["ray", "jax", "8000/tcp", "peers"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "ports", "reach", "nodes", "gcs"]), inner)
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_any_input_gives_a_plan_or_coded_faults(value: Any) -> None:
    try:
        made = plan.derive_plan(cluster(fullmesh_services=value))
    except InvalidInputError:
        return
    data = made["data_ports"]
    for port in made["services"]:
        assert 1024 <= port["first"] <= port["last"] <= 65535
        assert port["last"] < data["first"] or port["first"] > data["last"]


# --- their use -----------------------------------------------------------------------------------


def test_vllm_uses_its_own_port_without_ray() -> None:
    """--master-port defaults to 29501 (vllm.config.parallel). If it is closed, its ranks wait for half an hour."""
    made = served("vllm")
    assert "29501/tcp" in services.list_open_ports(made, "peers")
    assert 29501 in made["reserved_ports"]
    (init,) = [one for one in made["services"] if one["part"] == "init"]
    assert (init["first"], init["reach"], init["nodes"]) == (29501, ["peers"], ["a"])
    other = served({"name": "vllm", "ports": {"init": 29511}})
    assert {"29501/tcp", "29511/tcp"} & set(services.list_open_ports(other, "peers")) == {
        "29511/tcp"
    }


def test_a_public_port_is_opened_once() -> None:
    made = served(OWN | {"reach": ["peers", "everybody"]})
    assert services.list_open_ports(made, "everybody") == ["8000/tcp", "9000-9010/udp"]
    assert services.list_open_ports(made, "peers") == made["open_ports"]
    assert services.list_open_ports(made, "controllers") == []


def test_the_kernel_does_not_assign_ports_of_services() -> None:
    made = served("ray")
    options = {"link_gbit": 10, "rtt_ms": 1, "rail_interfaces": [], "sysctls": {}}
    sysctl = made["data_ports"]["sysctl"]
    found = kernel_tuning.build_kernel_settings(sysctl, made["reserved_ports"], 2, options)
    value = next(one["value"] for one in found if one["key"] == kernel_tuning.RESERVED_PORTS)
    assert value == "6379,6700,6701,6702,6703,6704,6705,8265,10001,10002-13999,29400,29500"
    asked = options | {"nofile": 65536, "memlock": "unlimited"}
    assert not kernel_tuning.find_kernel_faults(sysctl, made["reserved_ports"], 2, asked)
    inside = kernel_tuning.find_kernel_faults(sysctl, ["49000-50000"], 2, asked)
    assert [fault.code for fault in inside] == ["KT-105"]


def test_a_security_group_admits_allowed_clients() -> None:
    made = served(OWN, {"name": "panel", "ports": [8443], "reach": "controllers"}, "jax")
    own = SecurityGroupSettings.of({"mode": "ports"}, made)
    assert 8482 in {need.first for need in own.needs(made)}
    assert {(str(need), network) for need, network in own.guests(made)} == {
        ("22/tcp", "10.9.0.1/32"),
        ("8443/tcp", "10.9.0.1/32"),
        ("8000/tcp", "0.0.0.0/0"),
        ("8000/tcp", "::/0"),
        ("9000-9010/udp", "0.0.0.0/0"),
        ("9000-9010/udp", "::/0"),
    }


def test_udp_is_reserved_opened_and_reported_as_untested() -> None:
    made = served({"name": "telemetry", "ports": ["9000-9010/udp"], "nodes": ["a"]})
    assert "9000-9010/udp" in services.list_open_ports(made, "peers", "a")
    assert "9000-9010/udp" not in services.list_open_ports(made, "peers", "b")
    assert "9000-9010" in made["reserved_ports"]
    assert (
        probe_wants.build_listener_request(made, "a", "peers_only")["named"]
        == probe_wants.build_listener_request(served(), "a", "peers_only")["named"]
    )
    assert probe_wants.describe_untried_ports(made) == [
        "opened and not tried: telemetry 9000-9010/udp"
    ]
    assert probe_wants.describe_untried_ports(served("ray")) == []


def test_the_probe_tests_both_ends_of_peer_ports() -> None:
    made = served("ray", {"name": "panel", "ports": [8443], "reach": "controllers"}, OWN)
    assert services.list_probe_ports(made, "b") == [
        6700,
        6701,
        6702,
        6703,
        6704,
        6705,
        10002,
        13999,
        8000,
    ]
    wants = probe_wants.build_listener_request(made, "a", "peers_only")
    assert [10002, 13999] in wants["allowed"]
    assert {"kind": "service", "port": 6379} in wants["named"]


def port(number: int, error: str = "") -> ProbePort:
    return {"kind": "service", "port": number, "error": error, "holder": "ray" if error else ""}


def test_a_running_service_is_probed_itself() -> None:
    made = served("ray")
    opened = {"a": [port(6379, "EADDRINUSE"), port(6700), port(6701, "EACCES")], "b": []}
    found = probe_wants.list_probe_targets(made, opened, "b")
    assert [(one["port"], one["kind"]) for one in found] == [(6379, "held"), (6700, "service")]


def test_outsiders_are_tested_if_only_peers_are_allowed() -> None:
    made = served("ray", OWN)
    opened = {"a": [port(6379), port(8265), port(8000)]}
    found = probe_wants.list_outsider_targets(made, opened, {"a": "10.0.0.11"})
    assert [one["port"] for one in found] == [6379]


def test_a_port_is_named_by_its_service() -> None:
    made = served("ray")
    assert services.find_port_service(made, "a", 6379) == "ray gcs"
    assert services.find_port_service(made, "b", 6379) == ""
    assert services.find_port_service(made, "b", 12000) == "ray workers"


@pytest.mark.parametrize(
    ("ports", "cpus", "enough"), [("10002-10009", 4, True), ("10002-10008", 4, False)]
)
def test_a_range_has_room_for_the_cpus_of_a_node(ports: str, cpus: int, enough: bool) -> None:
    made = served({"name": "ray", "ports": {"workers": ports}})
    seen: Any = {"cpus": cpus}
    found = [fault.code for fault in preflight.find_service_faults(made, "a", seen)]
    assert found == ([] if enough else ["PR-122"])


def test_the_page_lists_the_presets() -> None:
    assert service_pages.render_services_page(ROOT) == (ROOT / "docs/services.md").read_text(
        encoding="utf-8"
    )
