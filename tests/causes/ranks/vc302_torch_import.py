"""Cases of VC-302."""

from __future__ import annotations

from verify_changes import stopped

from causes.changes import fail_job_start
from causes.faults import TUNED, VICTIM, Fault, make_step

VERIFICATION = {
    "part of torch missing": fail_job_start(
        ("import", "/opt/fullmesh/torch/version.py", "no such file")
    ),
    "another torch": fail_job_start(
        ("import", "/srv/torch/version.py", "no such file", "/etc/environment:3")
    ),
    "virtual environment without its file": fail_job_start(
        ("import", "/opt/fullmesh/venv/pyvenv.cfg", "no such file, so Python does not find torch")
    ),
    "no torch": stopped("import", "failed", text="ModuleNotFoundError: torch"),
}
VENV = "/opt/fullmesh/venv"
TORCH = f"{VENV}/lib/python3*/site-packages/torch"
FAULTS = (
    Fault(
        "job-torch-file",
        TUNED,
        make_step(VICTIM, f"mv {TORCH}/version.py /run/", f"mv /run/version.py {TORCH}/"),
    ),
    Fault(
        "job-torch-file",
        TUNED,
        make_step(
            VICTIM,
            f"mv {TORCH}/version.py /run/; echo '<<<<<<< HEAD' > $(echo {TORCH})/version.py",
            f"mv /run/version.py {TORCH}/",
        ),
        variant="damaged",
        expect={"cause": "version.py: is damaged"},
    ),
    Fault(
        "job-torch-file",
        TUNED,
        make_step(VICTIM, f"mv {VENV}/pyvenv.cfg /run/", f"mv /run/pyvenv.cfg {VENV}/"),
        variant="venv",
        expect={"cause": "pyvenv.cfg: no such file"},
    ),
)
