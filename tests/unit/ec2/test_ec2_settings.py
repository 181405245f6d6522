"""EC2: invalid settings are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from ec2_account import SG, build_plan

from fullmesh.ec2.settings import SecurityGroupSettings, find_group_settings_faults


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"mode": "all"}, "EC-101"),
        ({"ssh_from": ["office"]}, "EC-102"),
        ({"ssh_from": ["0.0.0.0/0"]}, "EC-102"),
        ({"ssh_from": ["::/0"]}, "EC-102"),
        ({"extra_ports": ["22"]}, "EC-103"),
        ({"extra_ports": ["9-8/tcp"]}, "EC-103"),
        ({"extra_ports": ["70000/udp"]}, "EC-103"),
        ({"groups": ["my-group"]}, "EC-104"),
        ({"groups": ["=x"]}, "EC-104"),
        ({"name": "sg-1"}, "EC-120"),
        ({"name": ""}, "EC-120"),
        ({"name": "ü"}, "EC-120"),
        ({"vpc_id": "10.0.0.0/16"}, "EC-120"),
        ({"rule_limit": 0}, "EC-120"),
        ({"interface_limit": "many"}, "EC-120"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], code: str) -> None:
    assert [
        one.code
        for one in find_group_settings_faults(SecurityGroupSettings.of(settings, build_plan()))
    ] == [code]


def test_valid_settings_pass() -> None:
    own = build_plan(fullmesh_controllers=["198.51.100.9"])
    settings = SecurityGroupSettings.of(
        {
            "mode": "efa",
            "ssh_from": ["203.0.113.0/24", "2001:db8::1"],
            "groups": [SG, "Name=a b"],
            "extra_ports": ["22/tcp", "6000-6010/udp"],
        },
        own,
    )
    assert find_group_settings_faults(settings) == []
    # the plan's controllers may log in, too
    assert settings.ssh_from == ("198.51.100.9/32", "203.0.113.0/24", "2001:db8::1/128")
