"""module_utils/fullmesh/facts/nccl.py: what an NCCL library says, decoded; and how asking it can fail."""

from __future__ import annotations

import json
import os
import socket
import struct

import pytest
from ansible.module_utils.fullmesh.facts import nccl

V4 = (
    struct.pack("<H", socket.AF_INET) + struct.pack(">H", 50429) + bytes([10, 78, 0, 11]) + bytes(8)
)
V6 = (
    struct.pack("<H", socket.AF_INET6)
    + struct.pack(">HI", 50921, 0)
    + socket.inet_pton(socket.AF_INET6, "fd78::11")
    + bytes(4)
)
MAGIC = bytes.fromhex("fc1b48906ed03cd0")


def unique_id(sockaddr: bytes, magic: bytes = MAGIC) -> bytes:
    return (magic + sockaddr).ljust(128, b"\0")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (2804, "2.8.4"),
        (2901, "2.9.1"),
        (20908, "2.9.8"),
        (21005, "2.10.5"),
        (22809, "2.28.9"),
        (23203, "2.32.3"),
    ],
)
def test_version_number_is_decoded_on_both_scales(code: int, text: str) -> None:
    assert nccl.decode_version(code) == text


@pytest.mark.parametrize(
    ("raw", "endpoint"),
    [
        (unique_id(V4), {"family": "ipv4", "address": "10.78.0.11", "port": 50429}),
        (unique_id(V6), {"family": "ipv6", "address": "fd78::11", "port": 50921}),
        (unique_id(V4, b""), {"family": "ipv4", "address": "10.78.0.11", "port": 50429}),
    ],
    ids=["ipv4", "ipv6", "before-2.14"],
)
def test_unique_id_gives_the_listener(raw: bytes, endpoint: dict[str, object]) -> None:
    assert nccl.decode_unique_id(raw) == endpoint


def test_unique_id_without_an_address_is_refused() -> None:
    with pytest.raises(nccl.NcclError, match="holds no address"):
        nccl.decode_unique_id(b"\x7f" * 128)


def test_only_the_given_nccl_settings_reach_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "docker0")
    env = nccl.make_child_environment({"NCCL_SOCKET_IFNAME": "=eth1"})
    assert env["NCCL_SOCKET_IFNAME"] == "=eth1"
    assert "NCCL_SOCKET_IFNAME" not in nccl.make_child_environment({})
    assert env["PATH"] == os.environ["PATH"]


def child(answer: dict[str, object]) -> str:
    text = json.dumps(answer)
    return f"import sys; print('vm:1 NCCL INFO chatter'); print(sys.argv[3] + {text!r})"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import time; time.sleep(30)", "deadline"),
        ("import os; os.kill(os.getpid(), 9)", "crashed"),
        ("print('noise only')", "crashed"),
        (child({"rc": -1, "error": "no such file"}), "missing"),
        (child({"rc": 5, "error": "no socket interface found"}), "refused"),
    ],
)
def test_every_failure_has_a_message(
    monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    monkeypatch.setattr(nccl, "CHILD", source)
    seconds = 2.0 if reason == "deadline" else 30.0  # the others only start Python
    with pytest.raises(nccl.NcclError) as caught:
        nccl.query_nccl_library("", {}, False, seconds)
    assert caught.value.reason == reason


def test_the_marked_line_is_found_among_nccls_own_output(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"rc": 0, "code": 23203, "path": "/x/libnccl.so.2", "id": unique_id(V4).hex()}
    monkeypatch.setattr(nccl, "CHILD", child(answer))
    assert nccl.find_nccl_library("x") == {"version": "2.32.3", "path": "/x/libnccl.so.2"}
    assert nccl.find_nccl_endpoint()["port"] == 50429


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(nccl.NcclError, match=r"/nowhere/libnccl\.so\.2"):
        nccl.find_nccl_library("/nowhere/libnccl.so.2")
