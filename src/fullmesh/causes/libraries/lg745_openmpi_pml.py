"""Open MPI: a component for messages cannot be used

Open MPI could not open a component ({detail}). It was requested (OMPI_MCA_..., --mca, a site's settings)
or is the only one that was built, and this node lacks its library or a device that it can use.

**Place:** the node of this log

**Prove:** on that node: ompi_info | grep -E 'MCA (pml|btl|mtl)'; ucx_info -d | grep Transport; env | grep
OMPI_MCA

**Fix:** Use the same Open MPI and UCX on all nodes. For one run, choose another component: mpirun --mca
pml ob1 --mca btl tcp,self, or --mca pml ^ucx.

**Source:** open-mpi/ompi#11669, read: Open MPI's help-mca-base.txt
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-745",
    __doc__,
    examples=(
        "No components were able to be opened in the pml framework.",
        "[node1:1724353] PML ucx cannot be selected",
    ),
    patterns=(
        Pattern(
            "components were able to be opened",
            r"No components were able to be opened in the (?P<detail>\w{1,20}) framework",
        ),
        Pattern(" cannot be selected", r"(?P<detail>(?:PML|BTL|MTL) \w{1,20}) cannot be selected"),
    ),
    explains=(Explains(("LG-304",)),),
    weight=80,
)
