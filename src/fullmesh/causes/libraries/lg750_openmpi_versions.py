"""Open MPI: the processes use different versions

A process of Open MPI cannot read a message of another one ({detail}). The nodes or containers have
different versions of Open MPI or PMIx, or mpirun is of another installation than the library.

**Place:** the Open MPI that each node finds in its PATH and LD_LIBRARY_PATH

**Prove:** on every node and in the job's container: ompi_info --version; which mpirun orted prted;
pmix_info

**Fix:** Install the same Open MPI on all nodes, and start mpirun with its full path (or --prefix
DIRECTORY).

**Source:** read: Open MPI's and PMIx's error codes
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-750",
    __doc__,
    examples=(
        (
            "[gpu1:12345] [[50621,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer in "
            "file util/show_help.c at line 501"
        ),
        "[gpu1:00012] PMIX ERROR: UNPACK-PAST-END in file unpack.c at line 139",
    ),
    patterns=(
        Pattern(
            "ORTE_ERROR_LOG: ",
            r"ORTE_ERROR_LOG: (?P<detail>Data unpack [\w ]{5,60}|Pack data mismatch|Type mismatch)",
        ),
        Pattern(
            "PMIX ERROR: ",
            r"PMIX ERROR: (?P<detail>(?:PMIX_ERR_)?(?:UNPACK|PACK)-[A-Z-]{4,40}|OUTDATED[\w-]{0,20})",
        ),
    ),
    explains=(Explains(("LG-304", "LG-728", "LG-732")),),
    weight=82,
)
