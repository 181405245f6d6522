"""Cases of DG-191."""

from __future__ import annotations

from typing import Any, cast

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World
from verify_changes import verdict

from causes.changes import (
    Break,
    Change,
    block_reply_links,
    combine,
    get_node,
    get_survey,
    set_survey_part,
)
from causes.faults import BARE, LINK_OUT, MASTER, TUNED, VICTIM, Fault, make_step
from fullmesh.observed.ladder import SLOW
from fullmesh.observed.survey import ShapedQueue
from fullmesh.verify.model import ClusterObservations


def add_queue(what: str = "tbf", *, rate: float = 0.0, speed: int = 10000, **change: Any) -> Break:
    """Add a queue to ubuntu1's cluster interface of a speed."""
    one = {"card": "eth1", "side": "egress", "what": what, "rate": rate, "loss": 0.0, "delay": 0.0}

    def apply(world: World) -> None:
        set_survey_part("queues", [{**one, "every": True, **change}])(world)
        for card in get_survey(world)["interfaces"]:
            card["speed"] = speed

    return apply


def lose_packets(world: World) -> None:
    """Lose segments on the link, as a full queue does."""
    for record in get_node(world, EL)["links"]["links"]:
        record.update(lost=4, segments=60)


def slow_down(world: World) -> None:
    """Let only one connection pass, which shows the rate."""
    for record in get_node(world)["links"]["links"]:
        record.update(remark=f"{SLOW}: 1.9 Mbit/s", lost=4, segments=60)
    rate = {"bytes": 65536, "seconds": 0.3, "complete": True, "lost": 0}
    get_node(world)["links"]["bandwidth"] = [{**rate, "node": EL, "mbit_s": 1.9}]


SELECTED = {"rate": 2.0, "every": False}
CHANGES = {
    "shaped": Change(UB, add_queue(rate=2.0)),
    "shaped and lossy": Change(UB, combine(add_queue(rate=2.0), lose_packets)),
    "shaped and slow": Change(UB, combine(add_queue(rate=2.0), slow_down)),
    "shaped and holes": Change(
        UB, combine(add_queue(rate=2.0), block_reply_links("mtu_black_hole"))
    ),
    "shaped for some packets": Change(
        UB, combine(add_queue("htb class 1:20", **SELECTED), lose_packets)
    ),
    "policed": Change(UB, add_queue("police in a filter matchall", rate=5.0, side="ingress")),
    "below the speed": Change(UB, add_queue(rate=2000.0), "warning"),
    "of unknown speed": Change(UB, add_queue(rate=500.0, speed=0), "warning"),
    "lossy queue": Change(UB, combine(add_queue("netem", loss=0.1), lose_packets)),
    "late queue": Change(UB, add_queue("netem", delay=50.0)),
}


def limit_rate(seen: ClusterObservations) -> None:
    """Let a verification pass all checks with a queue of 20 Mbit/s."""
    held = {
        "card": "eth1",
        "side": "egress",
        "what": "tbf",
        "rate": 20.0,
        "loss": 0.0,
        "delay": 0.0,
    }
    seen.survey(UB)["queues"] = [cast("ShapedQueue", {**held, "every": True})]


def limit_rate_further(seen: ClusterObservations) -> None:
    """With a queue of 2 Mbit/s, large packets seem to be lost."""
    limit_rate(seen)
    verdict("mtu_black_hole")(seen)


VERIFICATION = {
    "shaped verification": limit_rate,
    "shaped verification with holes": limit_rate_further,
}
QUIET = {
    "a rate above the speed": add_queue(rate=40000.0),
    "a rate of the speed": add_queue(rate=10000.0),
    "a high rate at an unknown speed": add_queue(rate=20000.0, speed=0),
    "a class for packets of others": add_queue("htb class 1:20", **SELECTED),
    "a short delay": add_queue("netem", delay=0.1),
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
            make_step(VICTIM, script, "tc qdisc del dev eth1 root"),
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
