"""Store: a key is missing

A rank waited for the key {key} in the store, but no rank wrote it: another rank ended, or never
reached that line.

**Place:** a rank without this line in its log

**Prove:** pass the logs of all ranks to explain-log, or run ./fullmesh verify -i INVENTORY (VC-303,
VC-304)

**Fix:** Fix the missing rank. A short timeout in init_process_group shows such errors earlier.

**Source:** read: TCPStore.cpp
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-211",
    __doc__,
    examples=(
        (
            "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: "
            "/default_pg/0/store_based_barrier_key:1/last_worker"
        ),
    ),
    patterns=(
        Pattern(
            "wait timeout after",
            (
                r"wait timeout after \d+ ?ms, keys:"
                r" (?!\S{0,200}//(?:cpu|gloo)\S{0,80}/\d{1,7}(?![\w/]))(?P<key>\S{1,200})"
            ),
        ),
        # torch up to 2.4
        Pattern(
            "Error: Socket Timeout",
            r"(?:DistStoreError|DistNetworkError|RuntimeError): Socket Timeout",
            fields=(("key", "that the log does not name"),),
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    key=("key",),
    recorded=(
        RecordedLog(
            "other key",
            (
                "DistStoreError: wait timeout after 600000ms, keys: "
                "/default_pg/0/store_based_barrier_key:1/last_worker"
            ),
        ),
    ),
)
