"""Network backends: the kernel's state compared with the links."""

from __future__ import annotations

import pytest
from ansible.module_utils.fullmesh.network import static_ip
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from backend_links import BOND_JSON, LACP, TAGGED
from network_samples import Link

SEEN = ip_tool.parse_links(BOND_JSON)


def test_a_complete_kernel_state_lacks_nothing() -> None:
    assert static_ip.find_link_faults(LACP, SEEN, []) == []
    assert static_ip.find_link_faults(TAGGED, SEEN, []) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (TAGGED | {"vlan": {"id": 8, "parent": "bond0"}}, "bond0.7 is VLAN 7 of bond0, not 8 of"),
        (TAGGED | {"vlan": {"id": 7, "parent": "eth1"}}, "not 7 of eth1"),
        (TAGGED | {"interface": "eth1"}, "eth1 is not a VLAN"),
        (TAGGED | {"interface": "eth1.9"}, "there is no eth1.9 yet"),
        (LACP | {"bond": LACP["bond"] | {"mode": "active-backup"}}, "has not mode active-backup"),
        (LACP | {"bond": LACP["bond"] | {"miimon": 50}}, "has not miimon 50"),
        (LACP | {"bond": LACP["bond"] | {"lacp_rate": "slow"}}, "has not lacp_rate slow"),
        (
            LACP | {"bond": LACP["bond"] | {"members": ["eth1", "eth3"]}},
            "eth3 is not a member of bond0",
        ),
        (LACP | {"bond": LACP["bond"] | {"members": ["eth1"]}}, "eth2 is a member of bond0 that"),
        (LACP | {"interface": "bond0.7"}, "bond0.7 is no bond"),
        (LACP | {"mtu": 9000}, "the MTU of bond0 is 1450, not 9000"),
    ],
)
def test_missing_bond_and_vlan_state_in_the_kernel(wanted: Link, words: str) -> None:
    assert words in "; ".join(static_ip.find_link_faults(wanted, SEEN, []))
