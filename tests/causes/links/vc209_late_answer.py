"""Cases of VC-209."""

from __future__ import annotations

from records import EL1, UBUNTU1
from verify_changes import links

from fullmesh.verify.model import ClusterObservations


def delay_answer(seen: ClusterObservations) -> None:
    links(seen, EL1, UBUNTU1)[0].update(remark="connected, but the answer was late")


VERIFICATION = {
    "late answer": delay_answer,
}
