"""Cases of DG-186."""

from __future__ import annotations

from records import DIAGNOSED
from records import UBUNTU1 as UB

from causes.changes import Change, run_in_container
from causes.faults import BARE, PEER, VICTIM, Fault, make_step, run_service

# A container's network as docker's bridge makes it: behind the node's address, with the node's port range.
NAT = """
pid=$(pgrep -f '^torchrun 900' | head -1)
ip link add fault0 type veth peer name eth0 netns $pid
ip addr add 172.31.7.1/24 dev fault0; ip link set fault0 up
nsenter -t $pid -n sh -c 'ip addr add 172.31.7.2/24 dev eth0; ip link set eth0 up; ip link set lo up
  ip route add default via 172.31.7.1'
nft 'add table inet fault; add chain inet fault nat { type nat hook postrouting priority 100; }'
nft 'add rule inet fault nat ip saddr 172.31.7.0/24 oifname eth1 masquerade'
"""


OF_TWO = (
    "WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$P_ADDR bash -c"
    " 'touch /run/fault.ready; exec -a torchrun sleep 900'"
)


CHANGES = {
    "ranks behind NAT": Change(UB, run_in_container(["172.17.0.2"], DIAGNOSED + "12")),
    "ranks that reach nobody": Change(UB, run_in_container(["10.9.0.2"], "", "dropped")),
}
FAULTS = (
    Fault(
        "container-nat",
        BARE,
        (
            *run_service(f"unshare -n env RANK=1 {OF_TWO}"),
            *run_service(f"env RANK=0 {OF_TWO}", PEER),
            *make_step(VICTIM, NAT, "nft delete table inet fault; ip link del fault0"),
        ),
        expect={"direction": "{peer} -> {victim}", "peer": "{peer}"},
    ),
)
