"""Cases of DG-110."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, get_survey
from causes.faults import ALL, BARE, Fault, make_python_command, run_service, set_sysctl

# A connection of the previous diagnosis can occupy one of these ports for a minute (TIME_WAIT, tcp(7)). SO_REUSEADDR
# does not help, because the kernel requires it of both sockets, and a connecting socket does not have it.
FILL = """
held = []
for port in range(50000, 50064):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    while True:
        try:
            s.bind(('$V_ADDR', port)); break
        except OSError:
            time.sleep(0.2)
    s.listen(); held.append(s)
"""


CHANGES = {
    "range full": Change(
        UB, lambda w: get_survey(w)["sockets"].update(in_range=4000, time_wait=3900)
    ),
}
FAULTS = (
    Fault(
        "range-full",
        BARE,
        set_sysctl("net.ipv4.ip_local_port_range=50000 50063", ALL)
        + run_service(make_python_command(FILL)),
    ),
)
