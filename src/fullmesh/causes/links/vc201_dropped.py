"""A link drops packets

The kernel sent a SYN several times and got no reply. Gloo waits 539 s on one side and hours on the
other. Its message is in the log of the node that is not at fault.

**Prove:** nc -zv PEER PORT, and on the node that the finding names: nft list ruleset

**Fix:** Open the ports to the peers on that node: ansible-playbook site.yml -i INVENTORY --tags
firewall.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase

CAUSE = Cause(
    "VC-201",
    __doc__,
    weight=280,
    cases=(
        CauseCase(
            "range-drop", "the only input chain of the node drops the data range", fields=LINK
        ),
        CauseCase("output-drop", "an output chain of the node drops the data range", fields=LINK),
        CauseCase(
            "decoy",
            "two rules that match bytes of packets: the first meets none, the second drops all",
            fields=LINK,
        ),
        CauseCase(
            "one-way",
            "the only input chain drops the data range for one peer's address, while the other direction is open",
            fields=LINK,
        ),
        CauseCase(
            "random-master",
            "the only input chain drops the data range: that port comes out of it, as the probe's own ports do",
            fields=LINK,
        ),
    ),
)
