"""Cases of DG-191."""

from __future__ import annotations

from typing import Any, cast

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World
from verify_changes import verdict

from causes.changes import Break, Change, ends, node, put, survey, together
from causes.faults import BARE, LINK_OUT, MASTER, TUNED, VICTIM, Fault, at
from fullmesh.observed.ladder import SLOW
from fullmesh.observed.survey import ShapedQueue
from fullmesh.verify.model import ClusterObservations


def queue(what: str = "tbf", *, rate: float = 0.0, speed: int = 10000, **change: Any) -> Break:
    """ubuntu1's cluster interface of a speed has a queue."""
    one = {"card": "eth1", "side": "egress", "what": what, "rate": rate, "loss": 0.0, "delay": 0.0}

    def apply(world: World) -> None:
        put("queues", [{**one, "every": True, **change}])(world)
        for card in survey(world)["interfaces"]:
            card["speed"] = speed

    return apply


def lossy(world: World) -> None:
    """Segments are lost on the link, as a queue that is full loses them."""
    for record in node(world, EL)["links"]["links"]:
        record.update(lost=4, segments=60)


def slow(world: World) -> None:
    """One connection alone gets through, and shows the rate."""
    for record in node(world)["links"]["links"]:
        record.update(remark=f"{SLOW}: 1.9 Mbit/s", lost=4, segments=60)
    rate = {"bytes": 65536, "seconds": 0.3, "complete": True, "lost": 0}
    node(world)["links"]["bandwidth"] = [{**rate, "node": EL, "mbit_s": 1.9}]


SELECTED = {"rate": 2.0, "every": False}
CHANGES = {
    "shaped": Change(UB, queue(rate=2.0)),
    "shaped and lossy": Change(UB, together(queue(rate=2.0), lossy)),
    "shaped and slow": Change(UB, together(queue(rate=2.0), slow)),
    "shaped and holes": Change(UB, together(queue(rate=2.0), ends("mtu_black_hole"))),
    "shaped for some packets": Change(UB, together(queue("htb class 1:20", **SELECTED), lossy)),
    "policed": Change(UB, queue("police in a filter matchall", rate=5.0, side="ingress")),
    "below the speed": Change(UB, queue(rate=2000.0), "warning"),
    "of unknown speed": Change(UB, queue(rate=500.0, speed=0), "warning"),
    "lossy queue": Change(UB, together(queue("netem", loss=0.1), lossy)),
    "late queue": Change(UB, queue("netem", delay=50.0)),
}


def limit(seen: ClusterObservations) -> None:
    """A verification passes every check over a queue of 20 Mbit/s."""
    held = {
        "card": "eth1",
        "side": "egress",
        "what": "tbf",
        "rate": 20.0,
        "loss": 0.0,
        "delay": 0.0,
    }
    seen.survey(UB)["queues"] = [cast("ShapedQueue", {**held, "every": True})]


def limit_more(seen: ClusterObservations) -> None:
    """Over one of 2 Mbit/s, large packets seem to be lost."""
    limit(seen)
    verdict("mtu_black_hole")(seen)


VERIFICATION = {"shaped verification": limit, "shaped verification with holes": limit_more}
QUIET = {
    "a rate above the speed": queue(rate=40000.0),
    "a rate of the speed": queue(rate=10000.0),
    "a high rate at an unknown speed": queue(rate=20000.0, speed=0),
    "a class for packets of others": queue("htb class 1:20", **SELECTED),
    "a short delay": queue("netem", delay=0.1),
}
HTB = (
    "tc qdisc add dev eth1 root handle 1: htb default 10;"
    " tc class add dev eth1 parent 1: classid 1:10 htb rate 2mbit"
)
FAULTS = (
    *(
        Fault(
            "shaped",
            lab,
            at(VICTIM, script, "tc qdisc del dev eth1 root"),
            variant,
            victim=MASTER if lab == BARE else "worker",
            expect=LINK_OUT,
        )
        for lab in (TUNED, BARE)
        for variant, script in (
            ("tbf", "tc qdisc replace dev eth1 root tbf rate 2mbit burst 32kbit latency 400ms"),
            ("small", "tc qdisc replace dev eth1 root tbf rate 20mbit burst 32kbit limit 20kb"),
            ("htb", HTB),
        )
    ),
)
