"""Flow control of RoCE ports: messages in the layout of linux/dcbnl.h, since no virtual NIC has such settings."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.survey import flow_control
from ansible.module_utils.fullmesh.survey.netlink import (
    FAILED,
    HEAD,
    pack_attribute,
    split_messages,
)

# struct ieee_pfc: pfc_cap, pfc_en (priorities 3 and 4), mbc, delay, and two arrays of 8 counters
PFC = struct.pack("=BBBxHxx16Q", 8, 0b11000, 0, 0, *[0] * 16)
# struct dcb_app: selector (2: TCP or SCTP, 5: DSCP), priority, protocol
APPLICATIONS = ((5, 6, 48), (2, 1, 3260), (5, 3, 26))


def make_answer(*parts: tuple[int, bytes]) -> bytes:
    """Make the kernel's answer with parts of DCB_ATTR_IEEE."""
    body = flow_control.DCB.pack(0, flow_control.IEEE_GET, 0) + pack_attribute(1, b"ens2\0")
    body += pack_attribute(flow_control.IEEE, b"".join(pack_attribute(*part) for part in parts))
    return HEAD.pack(HEAD.size + len(body), flow_control.GETDCB, 0, 1, 0) + body


def make_application_table() -> bytes:
    """Make DCB_ATTR_IEEE_APP_TABLE."""
    return b"".join(pack_attribute(1, struct.pack("=BBH", *one)) for one in APPLICATIONS)


def test_pfc_and_dscp_are_read() -> None:
    answer = make_answer((1, bytes(64)), (2, PFC), (3, make_application_table()))
    assert flow_control.parse_settings(answer) == {"pfc": "3, 4", "dscp": "26 -> 3, 48 -> 6"}


def test_a_nic_without_protected_priorities_says_so() -> None:
    answer = make_answer((2, bytes(len(PFC))))
    assert flow_control.parse_settings(answer) == {"pfc": "none", "dscp": "none"}


def test_a_driver_without_these_settings_has_no_values() -> None:
    refused = struct.pack("=i", -errno.EOPNOTSUPP) + bytes(16)
    answer = HEAD.pack(HEAD.size + len(refused), FAILED, 0, 1, 0) + refused
    assert flow_control.parse_settings(answer) == {}
    assert flow_control.parse_settings(make_answer()) == {}


def test_an_answer_that_is_cut_off_is_no_error() -> None:
    answer = make_answer((2, PFC), (3, make_application_table()))
    for size in range(len(answer)):
        flow_control.parse_settings(answer[:size])


def test_the_query_names_the_interface() -> None:
    (message,) = split_messages(flow_control.build_query("ens2"))
    assert (message.kind, message.body) == (78, b"\0\x15\0\0\x09\0\x01\0ens2\0\0\0\0")


def test_this_kernel_answers_the_query(tmp_path: Path) -> None:
    """Loopback has no flow control, and the kernel refuses nothing else."""
    port = tmp_path / "mlx5_0/ports/1"
    (port / "gid_attrs/ndevs").mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text("lo\n")
    with flow_control.open_route_socket() as sock:
        sock.send(flow_control.build_query("lo"))
        (message,) = split_messages(sock.recv(flow_control.ANSWER_MOST))
    assert message.kind == FAILED
    assert struct.unpack_from("=i", message.body)[0] == -errno.EOPNOTSUPP
    assert flow_control.survey_flow_control(str(tmp_path / "mlx5_0"), str(port)) == {}


@pytest.mark.parametrize("interface", ["", "../ens2"])
def test_a_port_without_an_interface_has_no_values(tmp_path: Path, interface: str) -> None:
    (tmp_path / "gid_attrs/ndevs").mkdir(parents=True)
    (tmp_path / "gid_attrs/ndevs/0").write_text(interface)
    assert flow_control.survey_flow_control(str(tmp_path), str(tmp_path)) == {}


def test_ecn_and_the_traffic_class_of_nvidias_driver_are_read(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0/ports/1"
    (port / "gid_attrs/ndevs").mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text("ens2none\n")
    (tmp_path / "mlx5_0/tc/1").mkdir(parents=True)
    (tmp_path / "mlx5_0/tc/1/traffic_class").write_text("Global tclass=106\n")
    enable = tmp_path / "net/ens2none/ecn/roce_np/enable"
    enable.mkdir(parents=True)
    for number in range(8):
        (enable / str(number)).write_text(f"{int(number == 3)}\n")
    found = flow_control.survey_flow_control(
        str(tmp_path / "mlx5_0"), str(port), str(tmp_path / "net")
    )
    assert found == {"ecn": "3", "traffic class": "Global tclass=106"}
