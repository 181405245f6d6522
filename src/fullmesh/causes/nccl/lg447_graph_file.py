"""NCCL: a topology or graph file does not match the node

NCCL reads its graph from a file, and the file does not match the GPUs of this job ({detail}). An
image or /etc/nccl.conf sets NCCL_GRAPH_FILE or NCCL_TOPO_FILE for another machine type.

**Place:** the settings of the node of this log

**Prove:** run `env | grep -E '^NCCL_(GRAPH|TOPO)_FILE'` and `cat /etc/nccl.conf ~/.nccl.conf` on
that node

**Fix:** Remove NCCL_GRAPH_FILE from the environment and from nccl.conf. Keep NCCL_TOPO_FILE only if
it describes this machine type.

**Source:** NVIDIA/nccl#1008, Azure/azhpc-images#327
"""

from __future__ import annotations

from fullmesh.causes.logs import AS_LAST, LogCause, Pattern

CAUSE = LogCause(
    "LG-447",
    __doc__,
    examples=("n:1:2 [0] graph/search.cc:703 NCCL WARN XML Import Channel : dev 1 not found.",),
    patterns=(
        Pattern("XML ", r"(?P<detail>XML Import Channel : dev \S{1,20} not found)"),
        Pattern(
            "XML ",
            AS_LAST
            + r"(?:Could not open|.{0,40}unknown) ?(?P<detail>XML (?:[Tt]opology|[Gg]raph) file)",
        ),
    ),
    weight=88,
)
