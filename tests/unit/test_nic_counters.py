"""Counters of lost packets: read from a real veth pair, and from answers with the names of real NICs."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.facts import nic_counters

ROOT = Path(__file__).parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces of its own")
# Names as mlx5 and ice give them, and some that are no losses.
MLX5 = {
    "rx_packets": 7102787,
    "rx_out_of_buffer": 9,
    "rx_crc_errors_phy": 1,
    "rx_symbol_err_phy": 0,
    "rx_discards_phy": 12,
    "tx_discards_phy": 4,
    "rx_prio3_bytes": 5,
    "rx_prio3_discards": 11,
    "rx_prio3_buf_discard": 10,
    "rx_prio3_cong_discard": 8,
    "ch0_events": 3,
}
ICE = {"rx_dropped.nic": 3, "rx_crc_errors.nic": (1 << 64) - 1, "rx_csum_bad.nic": 7}
BNXT = {"[0]: rx_discards": 1, "rx_total_discard_pkts": 1, "rx_fcs_err_frames": 2}
NAMESPACE = """
mount -t sysfs none /sys
ip link add near type veth peer name far
ip link add top type bridge
ip link set near master top
exec {python} - <<'END'
import json, sys
sys.path.insert(0, {path!r})
import nic_counters
read = {{name: nic_counters.read_statistics(name) for name in ("near", "lo", "gone")}}
peer = int(open("/sys/class/net/near/iflink").read())
print(json.dumps([peer, read, nic_counters.list_nics("top"), nic_counters.read_losses(["top"])]))
END
"""


class NicDriver:
    """Answers requests as the kernel does: with as many counters as the driver has at that moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **counters: int) -> None:
        self.counters = counters
        self.grown: dict[str, int] = {}
        self.delay = 0.0
        monkeypatch.setattr(nic_counters, "call_ethtool", self.answer)

    def answer(self, sock: socket.socket, interface: str, data: bytes, room: int) -> bytes:
        assert sock.fileno() >= 0
        time.sleep(self.delay)
        if interface == "silent":
            raise OSError(95, "Operation not supported")
        command = struct.unpack_from("=I", data)[0]
        counters = {**self.counters, **self.grown}
        if command == nic_counters.GET_SET_SIZE:
            return nic_counters.SET_SIZE.pack(command, 0, 1 << 1, len(self.counters))
        if command == nic_counters.GET_STRINGS:
            head = nic_counters.STRINGS.pack(command, 1, len(counters))
            body = b"".join(name.encode().ljust(32, b"\0") for name in counters)
        else:
            head = nic_counters.VALUES.pack(command, len(counters))
            body = struct.pack(f"={len(counters)}Q", *counters.values())
        assert len(body) <= room
        return head + body.ljust(room, b"\0")


@as_root
def test_counters_of_a_veth_pair_are_the_kernels() -> None:
    folder = str(ROOT / "module_utils/fullmesh/facts")
    script = NAMESPACE.format(python=sys.executable, path=folder)
    command = ["unshare", "--net", "--mount", "sh", "-ec", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peer, read, below, losses = json.loads(done.stdout)
    assert read["near"]["peer_ifindex"] == peer
    assert "rx_queue_0_drops" in read["near"]
    assert (read["lo"], read["gone"], below, losses) == ({}, {}, ["near"], {})


@pytest.mark.parametrize(
    ("counters", "losses"),
    [
        (
            MLX5,
            {
                *("rx_crc_errors_phy", "rx_symbol_err_phy", "rx_discards_phy"),
                *("rx_prio3_discards", "rx_prio3_buf_discard"),
            },
        ),
        (BNXT, {"rx_total_discard_pkts", "rx_fcs_err_frames"}),
        (ICE, {"rx_dropped.nic", "rx_crc_errors.nic"}),
        ({"rx_queue_0_drops": 3}, set()),
        ({"rx_discards_phy".ljust(32, "x"): 1, "rx_discards_phy\xff"[:20]: 2}, set()),
    ],
)
def test_only_losses_of_a_nic_are_kept(
    counters: dict[str, int], losses: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    NicDriver(monkeypatch, **counters)
    (tmp_path / "ens2").mkdir()
    monkeypatch.setattr(nic_counters, "NET", str(tmp_path))
    kept = {name: counters[name] for name in losses}
    assert nic_counters.read_losses(["ens2"]) == ({"ens2": kept} if kept else {})


def test_a_bond_has_the_losses_of_its_nics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    NicDriver(monkeypatch, **MLX5)
    for entry in ("bond0.7/lower_bond0", "bond0/lower_ens1", "bond0/lower_ens2", "ens1", "ens2"):
        (tmp_path / entry).mkdir(parents=True)
    (tmp_path / "loop/lower_loop").mkdir(parents=True)
    monkeypatch.setattr(nic_counters, "NET", str(tmp_path))
    assert set(nic_counters.read_losses(["bond0.7", "", "../x"])) == {"ens1", "ens2"}
    assert nic_counters.list_nics("loop") == ["loop"]


@pytest.mark.parametrize("grown", [{"new": 1}, {str(number): 1 for number in range(9)}])
def test_a_driver_that_changes_its_counters_meanwhile_gives_none(
    grown: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    NicDriver(monkeypatch, **MLX5).grown = grown
    assert nic_counters.read_statistics("ens2") == {}


def test_too_many_counters_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = NicDriver(monkeypatch, **MLX5)
    assert nic_counters.read_statistics("ens2") == MLX5
    monkeypatch.setattr(nic_counters, "COUNT_MOST", len(MLX5) - 1)
    assert nic_counters.read_statistics("ens2") == {}
    driver.counters = {}
    assert nic_counters.read_statistics("ens2") == {}


@pytest.mark.parametrize("interface", ["", "x" * 16, "silent"])
def test_an_interface_without_counters_gives_none(
    interface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    NicDriver(monkeypatch, **MLX5)
    assert nic_counters.read_statistics(interface) == {}


def test_a_nic_that_hangs_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    NicDriver(monkeypatch, **MLX5).delay = 5.0
    (tmp_path / "ens2").mkdir()
    monkeypatch.setattr(nic_counters, "NET", str(tmp_path))
    monkeypatch.setattr(nic_counters, "SECONDS", 0.05)
    assert nic_counters.read_losses(["ens2"]) == {}
