"""What mutants of the netplan editor showed: changes of its code that no other test noticed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network.backends import netplan

MAC = "52:54:00:aa:00:01"
BY_MAC = f"""network:
  ethernets:
    lan:
      match: {{macaddress: '{MAC.upper()}'}}
      dhcp4: true
"""
# What stands before and behind `network` at the file's head belongs to other programs.
BETWEEN = """site:
  eth1: {a: b}
network:
  ethernets:
    eth1:
      dhcp4: true
    eth0: {}
more:
  ethernets:
    eth1:
      dhcp4: x
"""
# The mapping of a section that has lost all its entries goes, and no more than that.
LAST = """network:
  ethernets:
    eth1:
      dhcp4: true
  wifis:
    wlan0: {}
"""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (BY_MAC, {"network": {"ethernets": {"eth1": {"match": {"macaddress": MAC.upper()}}}}}),
        (
            BETWEEN,
            {
                "site": {"eth1": {"a": "b"}},
                "network": {"ethernets": {"eth0": {}}},
                "more": {"ethernets": {"eth1": {"dhcp4": "x"}}},
            },
        ),
        (LAST, {"network": {"wifis": {"wlan0": {}}}}),
    ],
)
def test_the_rest_of_a_file(text: str, left: dict[str, Any]) -> None:
    assert yaml.safe_load(netplan.strip_entries(text, {"eth1": {MAC}}, ["eth1"], "x.yaml")) == left
