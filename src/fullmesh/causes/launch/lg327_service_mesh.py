"""A service mesh intercepts the job's connections

A log of the proxy envoy names port {port}, which ranks use to connect: a service mesh (Istio)
intercepts the connections between the pods. It may pass the store's port, but not Gloo's and NCCL's
random ports.

**Place:** the pods of the job: their sidecar

**Prove:** kubectl get pod POD -o jsonpath='{{.spec.containers[*].name}}' (is istio-proxy among
them?)

**Fix:** Start the job's pods without a sidecar: annotation sidecar.istio.io/inject: 'false'.

**Source:** pytorch/pytorch#81704, kubeflow/trainer#1636
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern

MESH_PORT = Fact(
    "mesh port", Pattern("envoy", r"\benvoy\b.{0,200}\b(?:in|out)bound\|(?P<port>\d{1,5})\|")
)
STORE_PORT = Fact(
    "store port",
    Pattern("client socket has connected to", r"has connected to \S{1,200}:(?P<port>\d{1,5}) on "),
)


def find_service_mesh(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a proxy's log that names the ranks' rendezvous port."""
    stores = {values[0]: line for values, line in evidence.facts.of("store port")}
    for values, line in evidence.facts.of("mesh port"):
        if values[0] in stores:
            yield CAUSE.make_finding({"port": values[0]}, [line, stores[values[0]]])
            return


CAUSE = LogCause(
    "LG-327",
    __doc__,
    find=find_service_mesh,
    facts=(MESH_PORT, STORE_PORT),
    weight=64,
)
