"""Cases of VC-238."""

from __future__ import annotations

from causes.rails import EL, Change, add_to_probe

QUEUE = {"card": "eth2", "side": "egress", "what": "tbf", "rate": 10.0, "loss": 0.0, "delay": 0.0}
CHANGES = {
    "rail, limited": Change(EL, add_to_probe(EL, "queues", {**QUEUE, "every": True})),
    "rail, lossy": Change(
        EL, add_to_probe(EL, "queues", {**QUEUE, "rate": 0.0, "loss": 0.3, "every": True})
    ),
}
QUIET = {
    "rail, a limit for some packets": add_to_probe(EL, "queues", {**QUEUE, "every": False}),
    "rail, a limit of another interface": add_to_probe(
        EL, "queues", {**QUEUE, "card": "eth9", "every": True}
    ),
}
