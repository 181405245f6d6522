"""The role against the mock: what is made, kept, named, fixed and given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.ec2.conftest import Cloud

PORTS = {
    "in tcp 29400-29400 self",
    "in tcp 29500-29500 self",
    "in tcp 50000-54095 self",
    "out tcp 29400-29400 self",
    "out tcp 29500-29500 self",
    "out tcp 50000-54095 self",
    "out -1 - 0.0.0.0/0",
}


def test_ports_from_bare_to_undone(cloud: Cloud) -> None:
    """One story: dry run, made, unchanged, broken by hand and fixed, others' rules kept, given back."""
    before = cloud.groups_of("gpu1")
    dry = cloud.play("ec2", "--check", "--diff").ok()
    assert "EC-111] gpu2" in dry.text
    assert cloud.group() == {}
    assert cloud.groups_of("gpu1") == before

    cloud.play("ec2").ok()
    assert cloud.rules() == PORTS
    assert cloud.groups_of("gpu1") == cloud.groups_of("gpu2") == sorted([*before, "fullmesh"])

    again = cloud.play("ec2").ok()
    assert again.recap("changed") == 0

    group = cloud.group()["GroupId"]
    cloud.revoke(group, "in", "tcp", "50000-54095", group)
    cloud.allow(group, "in", "tcp", "50000-50999", group)
    cloud.allow(group, "in", "tcp", "8888", "198.51.100.7/32")
    cloud.attach("gpu2", cloud.group("default")["GroupId"])
    named = cloud.play("ec2_diagnose")
    assert named.code == 2
    lacks = f"security group {group} (fullmesh) lacks a rule from itself for 51000-54095/tcp"
    assert f"[EC-112] {lacks}" in named.words
    assert "[EC-111] gpu2: interface" in named.words
    assert "[EC-111] gpu1" not in named.words
    cloud.play("ec2").ok()
    assert "in tcp 50000-54095 self" in cloud.rules()
    assert "in tcp 8888-8888 198.51.100.7/32" in cloud.rules()
    assert "fullmesh" in cloud.groups_of("gpu2")
    cloud.play("ec2_diagnose").ok()

    would = cloud.play("ec2_undo", "--check").ok()
    assert would.recap("changed") > 0
    assert "fullmesh" in cloud.groups_of("gpu1")
    cloud.play("ec2_undo").ok()
    assert cloud.group() == {}
    assert cloud.groups_of("gpu1") == before
    assert cloud.play("ec2_undo").recap("changed") == 0
