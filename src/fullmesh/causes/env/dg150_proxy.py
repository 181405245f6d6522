"""Proxy variables are set without an exception for the peers

Gloo, NCCL and the store ignore proxies. Programs that use HTTP between ranks (vLLM, Ray, Hugging
Face) send requests for the peers to the proxy, which cannot reach them.

**Prove:** env | grep -i proxy

**Fix:** Add the peers' addresses and names to no_proxy, as role cluster_env does.

**Source:** vllm#5779
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding, join_names

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def is_proxy_excepted(text: str, address: str, names: Sequence[str]) -> bool:
    """Return whether no_proxy covers a peer: itself, its network, its domain or everything."""
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        if entry in ("*", address, *names):
            return True
        if entry.startswith(".") and any(name.endswith(entry) for name in names):
            return True
        try:
            if "/" in entry and ipaddress.ip_address(address) in ipaddress.ip_network(
                entry, strict=False
            ):
                return True
        except ValueError:
            continue
    return False


def rule_proxies(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find proxy variables without an exception for the peers, which HTTP between ranks needs."""
    for name in evidence.nodes:
        proxy = next(((v, *h) for v in PROXIES if (h := evidence.variable(name, v)) and h[0]), None)
        if proxy is None or len(evidence.plan["nodes"]) == 1:
            continue
        held = [evidence.variable(name, v) for v in ("no_proxy", "NO_PROXY")]
        text = ",".join(h[0] for h in held if h)
        lacking = [
            peer
            for peer in evidence.peers(name)
            if evidence.address(peer)
            and not is_proxy_excepted(text, evidence.address(peer), [peer])
        ]
        if lacking:
            addresses = join_names([evidence.address(peer) for peer in lacking])
            yield Finding(
                "DG-150",
                "L1",
                f"{proxy[0]} is set on {name} and no_proxy has no exception for {join_names(lacking)}",
                node=name,
                peer=join_names(lacking),
                seen=f"{proxy[0]}={proxy[1]} from {proxy[2]}, no_proxy={text or 'not set'}",
                expected=f"no_proxy with {addresses}",
                fix=f"on {name}: add {addresses} to no_proxy in {proxy[2]}"
                + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
                severity=WARNING,
            )


CAUSE = Cause(
    "DG-150",
    __doc__,
    find=rule_proxies,
    needs=("environment",),
    severity=WARNING,
    weight=190,
    cases=(CauseCase("proxy", "https_proxy in /etc/environment, no_proxy without the peers"),),
)
