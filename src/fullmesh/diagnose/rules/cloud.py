"""What lies outside the nodes on EC2 (security groups, network ACLs), and the EFA software on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fullmesh.diagnose.model import Look
from fullmesh.ec2 import efa
from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2.settings import Settings
from fullmesh.model.types import Plan
from fullmesh.verify.model import Finding


def plan_for_groups(look: Look) -> Plan:
    """The plan with the ports that peers really use; where nobody planned any, those that the kernel gives out."""
    plan, data = look.plan, look.plan["data_ports"]
    named = [f"{plan['master']['port']}/tcp", f"{plan['rendezvous']['port']}/tcp"]
    more = [port for port in plan["open_ports"] if not port.endswith("/tcp")]
    return {**plan, "open_ports": [*named, f"{data['first']}-{data['last']}/tcp", *more]}


def security_groups(look: Look) -> Iterator[Finding]:
    """What the account says, when it was asked."""
    raw = look.cloud.get("raw")
    if not isinstance(raw, Mapping) or not {"interfaces", "groups", "acls"} <= raw.keys():
        return
    plan = plan_for_groups(look)
    settings = Settings.of(look.cloud.get("settings") or {}, plan)
    yield from ec2_findings.findings(raw, plan, settings)


def efa_software(look: Look) -> Iterator[Finding]:
    """Device, driver, libfabric and NCCL's plugin, of those nodes that said anything."""
    surveys = {name: look.survey(name) for name in look.nodes}
    yield from efa.findings({name: own["efa"] for name, own in surveys.items() if "efa" in own})


RULES = (security_groups, efa_software)
