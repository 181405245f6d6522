"""Open MPI: srun and this Open MPI share no PMI

srun started the processes of an Open MPI that cannot get its ranks from this srun: srun --mpi names
another kind of PMI than Open MPI was built for, their versions of PMIx do not match, or Slurm has no
plugin of this kind (or finds no libpmix for it). The processes run alone, or are not started.

**Place:** the options of srun, and the Open MPI in the job's environment or container

**Prove:** srun --mpi=list, and in the job's environment: ompi_info | grep -i pmi

**Fix:** Use srun --mpi=pmix with an Open MPI whose PMIx version Slurm supports, or mpirun inside
the allocation instead of srun. If the program does not need MPI, remove mpi4py, or unset the
variables SLURM_* and PMI_* for it.

**Source:** open-mpi/ompi#10940, NVIDIA/pyxis#88, read: Open MPI's help text of its ess and schizo frameworks
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-732",
    __doc__,
    examples=("but OMPI was not built with SLURM's PMI support and therefore cannot",),
    patterns=(
        Pattern("was not built with SLURM's PMI"),
        Pattern("was not built with SLURM support and therefore cannot"),
        Pattern(
            "OPAL ERROR: Unreachable in file ",
            r"OPAL ERROR: Unreachable in file \w{1,20}_client\.c",
        ),
        Pattern("PMI2_Init failed to int"),
        Pattern("pmix_psec_base_open failed"),
        # Slurm was built without this plugin, or the plugin finds no libpmix
        Pattern("cannot find mpi plugin for mpi/"),
        Pattern("pmi/pmix: can not load PMIx library"),
        Pattern("Invalid MPI type '"),
        Pattern("specified plugin name for mpi/"),
    ),
    weight=88,
    recorded=(
        RecordedLog(
            "srun and Open MPI",
            (
                "[node001:94018] OPAL ERROR: Unreachable in file pmix3x_client.c at line 112\n"
                'The application appears to have been direct launched using "srun",\n'
                "but OMPI was not built with SLURM's PMI support and therefore cannot\n"
                "execute. There are several options for building PMI support under"
            ),
        ),
    ),
)
