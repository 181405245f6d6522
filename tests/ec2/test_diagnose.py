"""./fullmesh diagnose asks AWS as well, where there is reason to, and says when it could not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.ec2.conftest import Cloud

pytestmark = pytest.mark.rest


def diagnose(cloud: Cloud, **env: str) -> dict[str, Any]:
    """The result of a diagnosis; the nodes themselves do not answer here."""
    runs = cloud.home / "runs"
    run = cloud.play("diagnose", "-e", f"diagnose_runs_dir={runs}", **env)
    assert run.code == 2, run.text[-4000:]
    assert runs.exists(), run.text[-6000:]
    path = max(runs.glob("*/result.json"), key=lambda one: one.stat().st_mtime)
    return dict(json.loads(path.read_text()))


def test_the_group_is_read_and_its_gap_is_a_finding(cloud: Cloud) -> None:
    """Without EC2 settings in the inventory, AWS is not queried. With them, the missing range is reported."""
    quiet = diagnose(cloud)
    assert not [one for one in quiet["findings"] if one["code"].startswith("EC")]
    group = cloud.make_group("lab")
    for name in ("gpu1", "gpu2"):
        cloud.attach(name, group)
    cloud.allow(group, "in", "tcp", "29400-29500", group)
    cloud.allow(group, "in", "tcp", "50000-50999", group)
    cloud.settings = {"ec2_security_group_groups": [group]}
    found = [one for one in diagnose(cloud)["findings"] if one["code"].startswith("EC")]
    assert [one["code"] for one in found] == ["EC-112"]
    lacks = "lacks a rule from itself for 51000-54095/tcp"
    assert f"security group {group} (lab) {lacks}" in found[0]["cause"]
    assert sorted(found[0]["pairs"]) == [["gpu1", "gpu2"], ["gpu2", "gpu1"]]
    bare = diagnose(cloud, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert not [one for one in bare["findings"] if one["code"].startswith("EC")]
    missed = {one["what"]: one["why"] for one in bare["not_looked_at"]}
    assert "[EC-122]" in missed["security groups and network ACLs of EC2"]
