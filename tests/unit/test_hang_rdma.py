"""RDMA ports of a rank: what the hook remembers, and what the node reads later. sysfs is a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fullmesh_hang_answer as hang_answer
import fullmesh_hang_rdma as hang_rdma
import fullmesh_hook as hook
import pytest

from fullmesh import contract
from fullmesh.hang.ask import name_rails
from fullmesh.observed.hang import RankRdmaPort, RdmaPortState

GID = "0000:0000:0000:0000:0000:ffff:0a52:000b"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
STATE: RdmaPortState = {"gids": {"3": GID}, "errors": {"local_ack_timeout_err": 7}}


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the port of a NIC of NVIDIA: RoCE v1 and v2, an empty entry, and a counter that is no error."""
    port = tmp_path / "class/mlx5_1/ports/1"
    files = {
        "gids/2": GID,
        "gids/3": GID,
        "gids/4": EMPTY,
        **{f"gids/{number}": EMPTY for number in range(10, 300)},
        "gid_attrs/types/2": "IB/RoCE v1",
        "gid_attrs/types/3": "RoCE v2",
        "gid_attrs/ndevs/0": "ens2",
        "hw_counters/local_ack_timeout_err": "7",
        "hw_counters/out_of_buffer": "9",
        "state": "4: ACTIVE",
    }
    for name, text in files.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text + "\n")
    verbs = tmp_path / "verbs/uverbs4"
    verbs.mkdir(parents=True)
    (verbs / "ibdev").write_text("mlx5_1\n")
    monkeypatch.setattr(hook, "RDMA", str(tmp_path / "class"))
    monkeypatch.setattr(hang_rdma, "VERBS", str(tmp_path / "verbs"))
    monkeypatch.setattr(hang_rdma, "OPENED", str(tmp_path / "dev/"))
    return tmp_path


def test_a_port_has_its_gids_of_roce_v2_and_its_error_counters(sysfs: Path) -> None:
    assert hook.read_rdma_ports() == {"mlx5_1:1": STATE}
    del sysfs


def test_a_rank_has_only_the_ports_of_devices_that_it_has_open(sysfs: Path) -> None:
    ports = hang_rdma.read_node_ports()
    assert hang_rdma.select_rank_ports(os.getpid(), ports, {"mlx5_1:1": STATE}) == []
    (sysfs / "dev").mkdir()
    with (sysfs / "dev/uverbs4").open("w"):
        (found,) = hang_rdma.select_rank_ports(os.getpid(), ports, {"mlx5_1:1": STATE})
        (unknown,) = hang_rdma.select_rank_ports(os.getpid(), ports, {})
    assert found == {
        "port": "mlx5_1:1",
        "interface": "ens2",
        "state": "ACTIVE",
        "now": STATE,
        "start": STATE,
    }
    assert "start" not in unknown


def test_a_port_has_the_lost_packets_of_its_nics(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only now: the hook of a rank does not read them."""
    held = {"ens2f0": {"rx_discards_phy": 4, "rx_dropped.nic": 1}, "ens2f1": {"rx_discards_phy": 3}}
    asked: list[list[str]] = []
    monkeypatch.setattr(
        hang_rdma.nic_counters, "read_losses", lambda names: (asked.append(names), held)[1]
    )
    (found,) = hang_rdma.read_node_ports()
    losses = {"rx_discards_phy": 7, "rx_dropped.nic": 1}
    assert found["now"] == {**STATE, "errors": {**STATE["errors"], **losses}}
    assert contract.convert_value(RankRdmaPort, found) == found
    assert asked == [["ens2"]]
    assert hook.read_rdma_ports() == {"mlx5_1:1": STATE}
    del sysfs


def test_a_nic_that_hangs_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, silent = os.pipe()
    monkeypatch.setattr(hook, "read_rdma_ports", lambda: (os.read(reading, 1), {})[1])
    monkeypatch.setattr(hang_rdma, "SECONDS", 0.05)
    assert hang_rdma.read_node_ports() == []
    os.close(silent)


@pytest.mark.parametrize(
    "damaged",
    [
        [],
        {"mlx5_1:1": 3},
        {"mlx5_1:1": {"gids": {"3": 4}, "errors": {}}},
        {"mlx5_1:1": {"gids": {}, "errors": {"local_ack_timeout_err": -1}}},
        {"mlx5_1:1": {"gids": {str(number): GID for number in range(257)}, "errors": {}}},
    ],
)
def test_a_damaged_answer_about_ports_is_refused(damaged: object) -> None:
    with pytest.raises(ValueError, match=r"its |counter|GID|port"):
        hang_answer.read_header(json.dumps({"why": "", "rdma": damaged}).encode())


def test_an_interface_with_an_odd_name_is_left_out(sysfs: Path) -> None:
    (sysfs / "class/mlx5_1/ports/1/gid_attrs/ndevs/0").write_text("a;b\n")
    (found,) = hang_rdma.read_node_ports()
    assert contract.convert_value(RankRdmaPort, found)["interface"] == ""


@pytest.mark.parametrize(
    "lie",
    [
        {"port": "mlx5_1:1; reboot"},
        {"port": "mlx5_1"},
        {"interface": "ens2\x1b[2J"},
        {"interface": "$(reboot)"},
        {"state": "ACTIVE\n"},
        {"now": {"gids": {"3 ": GID}, "errors": {}}},
        {"now": {"gids": {"3": "::1%x"}, "errors": {}}},
        {"now": {"gids": {}, "errors": {"local ack": 1}}},
        {"start": {"gids": {}, "errors": {"x\x1b": 1}}},
    ],
)
def test_a_node_that_lies_about_its_ports_is_refused(lie: dict[str, Any]) -> None:
    port = {"port": "mlx5_1:1", "interface": "ens2", "state": "ACTIVE", "now": STATE}
    assert contract.convert_value(RankRdmaPort, port) == port
    with pytest.raises(contract.ContractError):
        contract.convert_value(RankRdmaPort, {**port, **lie})


def test_ports_of_the_plan_get_the_name_of_their_rail() -> None:
    """Also if the address has left the GID table, and whatever the node says."""
    gone: RdmaPortState = {"gids": {}, "errors": {}}
    port = {"port": "mlx5_1:1", "interface": "ens2", "state": "ACTIVE", "rail": "false"}
    ranks: Any = [
        {"host": host, "rdma": [{**port, "now": now, "start": start}]}
        for host, now, start in (("n1", gone, STATE), ("n2", STATE, STATE))
    ]
    plan: Any = {"rails": [{"name": "rail1", "members": {"n1": "10.82.0.11"}}]}
    name_rails(plan, ranks)
    assert [rank["rdma"][0].get("rail") for rank in ranks] == ["rail1", None]
