"""Questions to nodes over a kept connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import mux_master
import pytest
from ask_connections import make_query, result, way

from fullmesh.ask import mux


@pytest.mark.usefixtures("_told")
def test_a_kept_connection_is_used_without_ssh(short: Path) -> None:
    master = mux_master.Master(short)
    there = way(short, ssh="exit 99")
    assert result(there, make_query("", text="x"))["text"] == "x"
    assert master.commands == [there.command]
    master.close()


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("kind", ["denies", "other"])
def test_a_refused_session_falls_back_to_ssh(short: Path, kind: str) -> None:
    master = mux_master.Master(short, kind)
    assert result(way(short), make_query("", text="x"))["text"] == "x"
    assert master.commands == []
    master.close()


@pytest.mark.usefixtures("_told")
def test_a_socket_without_listener_falls_back_to_ssh(short: Path) -> None:
    assert result(way(short), make_query("", text="x"))["text"] == "x"
    short.touch()
    assert result(way(short), make_query("", text="x"))["text"] == "x"


@pytest.mark.usefixtures("_told")
def test_a_broken_connection_is_retried_once(short: Path) -> None:
    master = mux_master.Master(short, "cuts")
    said = result(way(short), make_query("", text="x"))
    assert said["unreachable"] is True
    assert said["msg"].startswith("[AK-102] The connection was lost before")
    assert len(master.commands) == 2
    master.close()


def test_an_invalid_message_is_refused() -> None:
    async def hear(data: bytes) -> mux.MuxMessage:
        here, there = mux.socket.socketpair()
        here.setblocking(False)
        there.sendall(data)
        there.close()
        try:
            return await mux.receive_message(here)
        finally:
            here.close()

    assert asyncio.run(hear(mux.pack_message(mux.HELLO, 4))).number(0) == 4
    for wrong in (b"\xff\xff\xff\xff", b"\0\0\0\1x"):
        with pytest.raises(mux.MuxError, match="a message of"):
            asyncio.run(hear(wrong))
    with pytest.raises(EOFError):
        asyncio.run(hear(b"\0\0\0\x09abc"))
    with pytest.raises(mux.MuxError, match="ends early"):
        mux.MuxMessage(mux.FAILURE, b"abc").number(0)
