"""The listen backlog: the behaviour of this kernel, and the findings about a limit."""

from __future__ import annotations

import socket

import pytest
import records
from causes import changes
from records import EL1, UBUNTU1

BACKLOG = "net.core.somaxconn"


@pytest.mark.parametrize("backlog", [0, 1, 3])
def test_one_more_connection_than_the_backlog_waits(backlog: int) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        place = server.getsockname()
        waiting = [socket.create_connection(place, 5) for _ in range(backlog + 1)]
        with pytest.raises(TimeoutError):
            socket.create_connection(place, 0.5)
        for one in waiting:
            one.close()


def find_codes(*changes: changes.Break) -> list[tuple[str, str]]:
    world = records.load_world("healthy")
    for change in changes:
        change(world)
    return [(one["code"], one["severity"]) for one in records.diagnose_answers(world)["findings"]]


@pytest.mark.parametrize(
    ("name", "most", "found"),
    [
        (EL1, 2, [("DG-144", "warning")]),  # the store: two ranks, two connections each
        (EL1, 3, []),
        (UBUNTU1, 0, []),  # Gloo: the other rank's
    ],
)
def test_a_backlog_is_compared_with_simultaneous_connections(
    name: str, most: int, found: list[tuple[str, str]]
) -> None:
    assert find_codes(changes.change_sysctl(BACKLOG, str(most), name)) == found


def test_a_small_backlog_does_not_hide_a_blocked_link() -> None:
    found = find_codes(changes.change_sysctl(BACKLOG, "1", EL1), changes.block_links())
    assert ("DG-144", "warning") in found
    assert [severity for _, severity in found].count("error") == 1
