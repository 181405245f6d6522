"""Cases of DG-110."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, survey
from causes.faults import ALL, BARE, Fault, python, service, sysctl

# A connection that the diagnosis before opened may lie on one of these ports for a minute still (TIME_WAIT, tcp(7)),
# and SO_REUSEADDR does not help: the kernel asks both sockets for it, and the one of a connect() had none.
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
    "range full": Change(UB, lambda w: survey(w)["sockets"].update(in_range=4000, time_wait=3900)),
}
FAULTS = (
    Fault(
        "range-full",
        BARE,
        sysctl("net.ipv4.ip_local_port_range=50000 50063", ALL) + service(python(FILL)),
    ),
)
