"""Cases of DG-183."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_survey_part
from causes.faults import TUNED, VICTIM, Fault, make_step

JOB_UNIT = {
    "drop_ins": [],
    "nofile": 1048576,
    "allow": [],
    "deny": [],
    "own_network": False,
    "families": "AF_UNIX AF_NETLINK AF_INET6 AF_INET",
}


CHANGES = {
    "unit without a network": Change(
        UB, set_survey_part("job_unit", {**JOB_UNIT, "own_network": True})
    ),
    "unit without IPv4": Change(
        UB, set_survey_part("job_unit", {**JOB_UNIT, "families": "AF_UNIX"})
    ),
    "unit that forbids IPv4": Change(
        UB, set_survey_part("job_unit", {**JOB_UNIT, "families": "~AF_INET"})
    ),
    "unit that may not speak to peers": Change(
        UB,
        set_survey_part(
            "job_unit",
            {**JOB_UNIT, "deny": ["0.0.0.0/0", "::/0"], "allow": ["127.0.0.0/8", "::1/128"]},
        ),
    ),
    **{
        f"unit with {name}={value}": Change(
            UB,
            set_survey_part(
                "job_unit", {**JOB_UNIT, "settings": {name: value}, "scripts": ["/home/a.py"]}
            ),
        )
        for name, value in (
            ("InaccessiblePaths", "-/opt"),
            ("InaccessiblePaths", "/home"),
            ("TemporaryFileSystem", "/opt:ro"),
            ("NoExecPaths", "/opt"),
            ("ReadOnlyPaths", "/dev"),
            ("ProtectSystem", "strict"),
            ("ProtectHome", "yes"),
            ("MemoryMax", "31457280"),
            ("LimitAS", "314572800"),
            ("UMask", "0777"),
            ("RootDirectory", "/srv"),
            ("RestrictNetworkInterfaces", "lo"),
            ("SocketBindDeny", "any"),
            ("UnsetEnvironment", "A FULLMESH_SCRIPT"),
            ("RuntimeMaxUSec", "2s"),
        )
    },
    "unit without a system call": Change(
        UB, set_survey_part("job_unit", {**JOB_UNIT, "blocked": ["bind"]})
    ),
    "unit of nobody": Change(
        UB, set_survey_part("job_unit", {**JOB_UNIT, "missing": ["User=nosuch"]})
    ),
    "unit that is masked": Change(UB, set_survey_part("job_unit", {**JOB_UNIT, "load": "masked"})),
    "unit with few files": Change(UB, set_survey_part("job_unit", {**JOB_UNIT, "nofile": 12})),
}
FAULTS = (
    Fault(
        "job-unit",
        TUNED,
        make_step(
            VICTIM,
            "mkdir -p /etc/systemd/system/fullmesh-job@.service.d\n"
            "printf '[Service]\\nIPAddressDeny=any\\n' > /etc/systemd/system/fullmesh-job@.service.d/fault.conf\n"
            "systemctl daemon-reload",
            "rm -r /etc/systemd/system/fullmesh-job@.service.d; systemctl daemon-reload",
        ),
        expect={"peer": "{peer}"},
    ),
)
