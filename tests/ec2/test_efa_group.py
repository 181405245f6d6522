"""EFA: all traffic from and to the group itself, in a group that was there before, on every EFA interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.ec2.conftest import Cloud

pytestmark = pytest.mark.rest

OURS = {"in -1 - self", "out -1 - self"}


def efa_only(cloud: Cloud, name: str, group: str) -> str:
    """A second interface of a node, without an address of the plan, as a p5 has 31 of."""
    eni = cloud.client.create_network_interface(
        SubnetId=cloud.subnet,
        PrivateIpAddress="10.50.1.201",  # moto draws one by lot otherwise, that of a node, too
        Groups=[group],
        TagSpecifications=[
            {
                "ResourceType": "network-interface",
                "Tags": [{"Key": "test-kind", "Value": "efa-only"}, {"Key": "Owner", "Value": "x"}],
            }
        ],
    )["NetworkInterface"]["NetworkInterfaceId"]
    instance = cloud.interface(name)["Attachment"]["InstanceId"]
    cloud.client.attach_network_interface(
        NetworkInterfaceId=eni, InstanceId=instance, DeviceIndex=1
    )
    return str(eni)


def described(cloud: Cloud, eni: str) -> dict[str, Any]:
    """An interface by its id."""
    found = cloud.client.describe_network_interfaces(NetworkInterfaceIds=[eni])
    return dict(found["NetworkInterfaces"][0])


def test_an_existing_group_gets_the_rules_and_keeps_its_own(cloud: Cloud) -> None:
    """Two groups, by tag and by id; secrets nowhere in the output, however loud it is; undo."""
    fabric = cloud.make_group("fabric", Name="efa fabric")
    extra = cloud.make_group("extra")
    default = cloud.group("default")["GroupId"]
    cloud.allow(fabric, "in", "tcp", "8888", "198.51.100.7/32")
    eni = efa_only(cloud, "gpu2", default)
    # gpu1 has the group already: undo must leave it there
    cloud.attach("gpu1", default, fabric)
    cloud.settings = {
        "ec2_security_group_mode": "efa",
        "ec2_security_group_groups": ["Name=efa fabric", extra],
    }
    before = cloud.rules("fabric")

    made = cloud.play(
        "ec2", "-vvv", "--diff", ANSIBLE_LOG_PATH=str(cloud.home / "ansible.log")
    ).ok()
    logged = (cloud.home / "ansible.log").read_text()
    assert "amazon.aws" in made.text
    for text in (made.text, logged):
        assert cloud.secret not in text
        assert cloud.key not in text
    assert cloud.rules("fabric") == before | OURS
    assert cloud.groups_of("gpu1") == cloud.groups_of("gpu2") == ["default", "extra", "fabric"]
    assert sorted(one["GroupName"] for one in described(cloud, eni)["Groups"]) == [
        "default",
        "extra",
        "fabric",
    ]
    again = cloud.play("ec2")
    assert (again.code, again.recap("changed")) == (0, 0), again.text

    # an inbound rule is not enough, even with the default outbound rule
    cloud.revoke(fabric, "out", "-1", "", fabric)
    named = cloud.play("ec2_diagnose")
    assert named.code == 2
    lacks = f"security group {fabric} (fabric) lacks a rule to itself for all traffic"
    assert f"[EC-113] {lacks} (the default outbound 0.0.0.0/0 does not replace it)" in named.words
    cloud.play("ec2").ok()
    assert cloud.rules("fabric") == before | OURS

    # in another mode, only Fullmesh's own outdated rules are removed
    cloud.settings["ec2_security_group_mode"] = "ports"
    cloud.settings["fullmesh_data_ports"] = "50000-51023"
    cloud.play("ec2").ok()
    ports = {"29400-29400", "29500-29500", "50000-51023"}
    assert cloud.rules("fabric") == before | {f"in tcp {one} self" for one in ports}

    cloud.play("ec2_undo", "--diff").ok()
    assert cloud.rules("fabric") == before
    assert cloud.groups_of("gpu1") == ["default", "fabric"]
    assert cloud.groups_of("gpu2") == ["default"]
    assert [one["GroupName"] for one in described(cloud, eni)["Groups"]] == ["default"]
    assert {one["Key"] for one in described(cloud, eni)["TagSet"]} == {"test-kind", "Owner"}
    assert cloud.play("ec2_undo").recap("changed") == 0
