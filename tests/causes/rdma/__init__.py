"""Cases of RDMA transfers: the outcome of tries, put into a recorded, healthy diagnosis."""

from __future__ import annotations

from typing import Any

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, combine, get_node, set_survey_part
from fullmesh.observed.ladder import RdmaResult
from fullmesh.result.findings import WARNING

SENT, RETRIES = 10, "IBV_WC_RETRY_EXC_ERR"
END: dict[str, Any] = {"step": "", "error": "", "count": SENT}


def make_gid(rail: int, host: int) -> str:
    """Return the GID of an address on a rail."""
    return f"0000:0000:0000:0000:0000:ffff:0a{80 + rail:02x}:{host:04x}"


def make_port(rail: int, host: int, gids: tuple[str, ...] = ()) -> dict[str, Any]:
    """Describe a RoCE port as the survey does."""
    local = f"fe80:0000:0000:0000:0200:00ff:fe8{rail}:{host:04x}"
    held = gids or (local, make_gid(rail, host))
    return {
        "device": f"rxe{rail}",
        "port": 1,
        "state": "ACTIVE",
        "physical": "LinkUp",
        "layer": "Ethernet",
        "rate": "100 Gb/sec (4X EDR)",
        "vendor": "0x15b3",
        "gids": [{"index": i, "type": "RoCE v2", "gid": gid} for i, gid in enumerate(held)],
    }


def make_try(source: str, rail: int, peer_rail: int = 0, **changed: Any) -> RdmaResult:
    """Make the result of a transfer that passed, with some changes."""
    hosts = {EL: 11, UB: 12}
    peer = UB if source == EL else EL
    said: Any = {
        "node": peer,
        "device": f"rxe{rail}",
        "port": 1,
        "gid": make_gid(rail, hosts[source]),
        "peer_device": f"rxe{peer_rail or rail}",
        "peer_port": 1,
        "peer_gid": make_gid(peer_rail or rail, hosts[peer]),
        "spare": bool(peer_rail),
        "own": {**END, **changed.pop("own", {})},
        "peer": {**END, **changed.pop("peer", {})},
        "mtu": 4096,
        "peer_mtu": 4096,
    }
    return said | changed


def add_rails(world: World) -> None:
    """Give both nodes two rails, and no limit on locked memory."""
    set_survey_part("limits", {"memlock": -1}, EL, UB)(world)
    for name, host in ((EL, 11), (UB, 12)):
        set_survey_part("rdma", [make_port(rail, host) for rail in (1, 2)], name)(world)


def set_results(*odd: tuple[str, RdmaResult], counters: dict[str, int] | None = None) -> Break:
    """Let all pairs of two rails pass, except for the given ones (node and result)."""

    def change(world: World) -> None:
        for name in (EL, UB):
            given = [said for source, said in odd if source == name]
            known = {said["device"] for said in given}
            passed = [make_try(name, rail) for rail in (1, 2) if f"rxe{rail}" not in known]
            held = counters or {} if name == UB else {}
            get_node(world, name)["links"]["rdma"] = {"pairs": passed + given, "counters": held}

    return combine(add_rails, change)


def expect_warning(place: str, change: Break) -> Change:
    """Expect a warning, because the nodes have no GPUs."""
    return Change(place, change, WARNING)
