"""Cut a node off in every known way. The node must end reachable, with the same /etc byte for byte."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from _pytest.mark import ParameterSet

from .conftest import STORE, Cut, Lab

MakeCut = Callable[[str], Cut]


def mark_rest(names: Iterable[str], *kept: str) -> list[ParameterSet]:
    """Return the parametrized cases, with all but *kept* marked for ``--all``.

    A kept case shows the same mechanism as the others.
    """
    assert set(kept) <= set(names)
    return [pytest.param(name, marks=[] if name in kept else pytest.mark.rest) for name in names]


def says(words: str, *parts: str) -> None:
    """Check that the run named the fault."""
    for part in parts:
        assert part in words, f"no {part!r} in: {words[-3000:]}"


def came_back(words: str, lab: Lab, *parts: str) -> None:
    """Check that the run names each node that it had to return to."""
    says(words, *(f"[IP-113] {node.name}" for node in lab.nodes), *parts)


# --- wrong values ---------------------------------------------------------------------------------


def test_wrong_gateway(lab: Lab, cut: MakeCut) -> None:
    with cut("wrong gateway"):
        words = lab.start(lambda node: lab.link(node, gateway=f"{lab.net}.99")).end()
    came_back(words, lab, "answers at", "s after its timer started")


@pytest.mark.rest
def test_wrong_address(lab: Lab, cut: MakeCut) -> None:
    """Use an address of another network, which has no route."""
    with cut("wrong address"):
        words = lab.start(
            lambda node: lab.link(
                node, addresses=[f"10.77.{lab.index}.{node.planned.split('.')[3]}"], gateway=""
            )
        ).end()
    came_back(words, lab)


@pytest.mark.rest
def test_wrong_prefix(lab: Lab, cut: MakeCut) -> None:
    """Use a prefix so short that the controller seems to be a neighbor."""
    # Forget the addresses of earlier tests, so that the router has to resolve the new ones.
    lab.host("ip", "neigh", "flush", "dev", lab.bridge)
    with cut("wrong prefix"):
        words = lab.start(
            lambda node: lab.link(node, addresses=[node.planned.replace("/24", "/10")])
        ).end()
    came_back(words, lab)


def test_address_of_a_neighbour(lab: Lab, cut: MakeCut) -> None:
    """Give each node the other's address. The duplicate is seen on the link, and nothing is armed."""
    first, second = lab.nodes
    other = {first.name: second, second.name: first}
    with cut("address that a neighbour has"):
        words = lab.start(
            lambda node: lab.link(node, addresses=[other[node.name].address + "/24"])
        ).end()
        assert all(node.log() == "" for node in lab.nodes)
    says(words, "[IP-105]", f"{second.address} is already used", f"{first.address} is already used")


@pytest.mark.rest
def test_wrong_interface(lab: Lab, cut: MakeCut) -> None:
    """Give address and default route to a second interface whose cable has no other end."""
    for node in lab.nodes:
        node.run("ip link add eth2 type veth peer name elsewhere")
        # The other end gets no address of its own, which would show that the cable works.
        node.run("ip link set elsewhere addrgenmode none && ip link set elsewhere up")
    time.sleep(1)
    try:
        with cut("wrong interface"):
            peers = {node.name: node.planned.split("/")[0] for node in lab.nodes}
            words = lab.start(lambda node: lab.link(node, interface="eth2"), cut_peers=peers).end()
        says(words, "[IP-1")
        assert "failed=1" in words
    finally:
        for node in lab.nodes:
            node.run("ip link delete eth2")


@pytest.mark.rest
def test_interface_that_is_not_there(lab: Lab, cut: MakeCut) -> None:
    with cut("interface that is not there"):
        words = lab.start(lambda node: lab.link(node, interface="eth9")).end()
        assert all(node.log() == "" for node in lab.nodes)
    says(words, "[IP-101] There is no interface 'eth9'")


@pytest.mark.rest
def test_wrong_vlan(lab: Lab, cut: MakeCut) -> None:
    """Put each node on a VLAN of its own, with the default route through it."""
    ids = dict(zip((node.name for node in lab.nodes), (97, 98), strict=True))
    peers = {node.name: node.planned.split("/")[0] for node in lab.nodes}
    with cut("wrong VLAN"):
        words = lab.start(
            lambda node: lab.link(
                node,
                interface=f"eth1.{ids[node.name]}",
                vlan={"id": ids[node.name], "parent": "eth1"},
            ),
            cut_peers=peers,
        ).end()
    says(words, "[IP-1")
    assert "failed=1" in words


@pytest.mark.rest
def test_mtu_that_blackholes_ssh(lab: Lab, cut: MakeCut) -> None:
    """Let node and controller use jumbo frames over a link that drops them silently."""
    routes = [node.planned.split("/")[0] for node in lab.nodes]
    for node in lab.nodes:
        # Offloads hide the packet size on a veth pair.
        node.run("ip link set dev eth1 gso_max_segs 1")
    for address in routes:
        lab.host("ip", "route", "replace", address, "dev", lab.bridge, "advmss", "8960")
    try:
        with cut("MTU that blackholes ssh"):
            words = lab.start(lambda node: lab.link(node, mtu=9000)).end()
        came_back(words, lab)
    finally:
        for address in routes:
            lab.host("ip", "route", "del", address, "dev", lab.bridge)
        for node in lab.nodes:
            node.run("ip link set dev eth1 gso_max_segs 65535")


@pytest.mark.rest
def test_route_that_bypasses_the_master(lab: Lab, cut: MakeCut) -> None:
    """Lose the route to the master, which answered before. ssh returns, and the nodes reach each other."""
    address, space = lab.at("130"), "fm-cuts-master"
    # left over by an interrupted run
    subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True, timeout=30)
    lab.host("ip", "netns", "add", space)
    try:
        # The cable gets the lowest possible hardware address, which the bridge must not take
        # (devtools.lab.nodes.fix_macs).
        cable = ["fm-cuts", "address", "02:00:00:00:00:01", "type", "veth"]
        lab.host("ip", "link", "add", *cable, "peer", "eth1", "netns", space)
        lab.host("ip", "link", "set", "fm-cuts", "master", lab.bridge, "up")
        lab.host("ip", "-n", space, "address", "add", f"{address}/24", "dev", "eth1")
        lab.host("ip", "-n", space, "link", "set", "eth1", "up")
        peers = {node.name: node.planned.split("/")[0] for node in lab.nodes}
        past = [{"to": f"{address}/32", "via": lab.at("254")}]
        with cut("route that leads past the master"):
            words = lab.start(
                lambda node: lab.link(node, routes=past),
                cut_peers=peers | {"master": address},
                cut_master="master",
                cut_seconds=45,
            ).end()
        says(words, f"[IP-115] with the new addresses this node did not reach the master {address}")
        says(words, *(f"Tried on {node.name}" for node in lab.nodes))
        # The node that gave up first missed no other. The second node may find that the first has
        # already reverted.
        assert re.search(rf"the master {address} \([\w ]+\) within", words)
    finally:
        lab.host("ip", "netns", "delete", space)


# --- the controller dies --------------------------------------------------------------------------

# A later kill needs a longer deadline, so that a busy machine gets there before the node reverts.
LATE, LATER = 25, 35
KILLS = {
    "while it arms": (r"TASK .*Arm the rollback", 0.4, 10),
    "after arm": (r"^changed: \[{first}\]", 0.0, 10),
    "during apply": (r"^changed: \[", 1.2, 10),
    "after apply, before it is back": (r"TASK .*confirm \| Open a new connection", 0.0, 10),
}
# The controller kills itself, because an outside watcher is too slow: the confirmation is already
# sent when its task is announced.
DIES_AT = {
    "before the proof": ("Verify the change on the node", LATE),
    "between proof and confirmation": ("Disarm the rollback", LATER),
}


@pytest.mark.parametrize("moment", mark_rest(KILLS, "during apply"))
def test_controller_killed(lab: Lab, cut: MakeCut, moment: str) -> None:
    pattern, delay, seconds = KILLS[moment]
    with cut(f"controller killed {moment}"):
        play = lab.start(lab.link, cut_seconds=seconds)
        play.until(r"TASK .*Arm the rollback")
        play.until(pattern.format(first=lab.nodes[0].name))
        time.sleep(delay)
        play.kill()
        time.sleep(1)
    # Nothing that the killed run left blocks the next run.
    assert all(node.run(f"ls {STORE}/*/armed 2> /dev/null | wc -l") == "0" for node in lab.nodes)


@pytest.mark.parametrize("moment", mark_rest(DIES_AT, "between proof and confirmation"))
def test_controller_dies(lab: Lab, cut: MakeCut, moment: str) -> None:
    task, seconds = DIES_AT[moment]
    with cut(f"controller killed {moment}"):
        lab.start(lab.link, die_at=task, cut_seconds=seconds).died()
    assert all(node.run(f"ls {STORE}/*/armed 2> /dev/null | wc -l") == "0" for node in lab.nodes)


# --- the network, the disk, the clock ---------------------------------------------------------------


@pytest.mark.rest
def test_network_down_during_confirm(lab: Lab, cut: MakeCut) -> None:
    """Cut the cables as the confirmation begins, and reconnect them after the deadline."""
    ports = [lab.port(node) for node in lab.nodes]
    with cut("network down during confirm"):
        play = lab.start(lab.link, cut_seconds=LATER)
        play.until(r"TASK .*Verify the change on the node")
        for port in ports:
            lab.host("ip", "link", "set", port, "down")
        time.sleep(LATER + 3)
        for port in ports:
            lab.host("ip", "link", "set", port, "up")
        words = play.end()
    says(words, "failed=1")
    # Count the answers of this task only, because the rollback has successful tasks, too.
    disarmed = [one.split(" TASK [")[0] for one in words.split("Disarm the rollback] ***")[1:]]
    assert not any("ok: [" in one for one in disarmed), disarmed


# NetworkManager gives up 45 s after it starts the interface. The rollback has used 20 s of them.
GIVES_UP = 30


@pytest.mark.rest
def test_dhcp_server_is_silent_during_the_rollback(lab: Lab, cut: MakeCut) -> None:
    """Restore a lease by hand if no client renews it in time, with its metric and remaining lifetime.

    The address stays, even when a client gives up later.
    """
    server = lab.dhcp_server()
    # No client needs the server before the rollback. A later stop could be too late on a busy
    # machine.
    os.kill(server, signal.SIGSTOP)
    with cut("DHCP server silent on the rollback") as made:

        def same() -> bool:
            for node in lab.nodes:
                now, was = node.state(), made.before[node.name]
                for key in ("links", "routes", "routes6"):
                    assert now[key] == was[key], f"{node.name}: {now[key]} is not {was[key]}"
            return True

        try:
            play = lab.start(lab.link)
            play.until(r"TASK .*confirm \| Open a new connection")
            play.kill()
            for node in lab.nodes:
                wait_for(lambda node=node: "restored in" in node.log(), 120)  # type: ignore[misc]
                assert re.search("told the kernel: .*ip addr add", node.log())
            wait_for(same, 10)
            time.sleep(GIVES_UP)
            same()
        finally:
            left = {node.name: node.lease_seconds() for node in lab.nodes}
            os.kill(server, signal.SIGCONT)
        # The clients ask at least once a minute, so they get a lease from the server again.
        wait_for(lambda: all(node.lease_seconds() > left[node.name] for node in lab.nodes), 100)


def test_disk_full_during_arm(lab: Lab, cut: MakeCut) -> None:
    for node in lab.nodes:
        node.run(f"mkdir -p {STORE} && mount -t tmpfs -o size=48k,mode=700 none {STORE}")
    try:
        with cut("disk full during arm"):
            words = lab.start(lab.link).end()
            for node in lab.nodes:
                assert node.run(f"ls -A {STORE} | grep -v -x -e lock -e log || true") == ""
                assert node.run("systemctl list-timers --all | grep -c fullmesh || true") == "0"
        says(words, "[TX-102]", "No space left on device")
    finally:
        for node in lab.nodes:
            node.run(f"umount {STORE}")


def test_rebooted_before_the_confirmation(lab: Lab, cut: MakeCut) -> None:
    """The boot-time unit finds the change and reverts it before the network starts."""
    with cut("rebooted before the confirmation"):
        play = lab.start(lab.link, cut_seconds=60)
        play.until(r"TASK .*Verify the change on the node")
        play.kill()
        for node in lab.nodes:
            node.reboot()
        for node in lab.nodes:
            wait_for(lambda node=node: "restarted before" in node.log())  # type: ignore[misc]


@pytest.mark.rest
def test_boot_unit_started_by_hand(lab: Lab, cut: MakeCut) -> None:
    with cut("boot-time unit started by hand"):
        play = lab.start(lab.link, cut_seconds=60)
        play.until(r"TASK .*confirm \| Open a new connection")
        play.kill()
        time.sleep(4)
        for node in lab.nodes:
            node.run("systemctl start fullmesh-rollback.service")


def wait_for(ready: Callable[[], bool], seconds: float = 60) -> None:
    """Poll until a condition is true."""
    end, why = time.monotonic() + seconds, ""
    while True:
        try:
            if ready():
                return
        except AssertionError as exc:
            why = str(exc)
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {why}"
        time.sleep(0.5)


RACE = """
words = []
path = "/etc/fullmesh-race"
for turn in range(8):
    tx.arm(run, "race", 3, [path], [])
    journal = tx.read_json(tx.folder("race") + "/journal.json")
    open(path, "w").write("changed")
    left = tx.seconds_left(journal)
    # spread the confirmations over the moment at which the guard's time is over
    time.sleep(max(left + turn * 0.2, 0))
    word = tx.disarm(run, "race")
    there = os.path.exists(path)
    # a machine so busy that the change was put back before it was written shows nothing
    assert left <= 0.2 or there == (word == "disarmed"), (turn, left, word, there)
    words.append(word)
    if there:
        os.unlink(path)
print(",".join(words))
"""


def on_all(lab: Lab, script: str) -> dict[str, str]:
    """Run a script with the engine on all nodes at once. Return each node's output."""
    with ThreadPoolExecutor(len(lab.nodes)) as pool:
        said = pool.map(lambda node: node.engine(script), lab.nodes)
        return dict(zip([node.name for node in lab.nodes], said, strict=True))


def test_guard_acts_while_confirm_arrives(lab: Lab, cut: MakeCut) -> None:
    """Let the guard and a confirmation run at the same moment. One wins, and the state matches the winner."""
    with cut("guard acts while confirm arrives"):
        said = on_all(lab, RACE)
    for name, words in said.items():
        assert len(words.split(",")) == 8
        print(name, words)  # noqa: T201 (the number of wins)
    assert {word for words in said.values() for word in words.split(",")} <= {"disarmed", "fired"}


KILLED = """
path, ran = "/etc/fullmesh-killed", "/tmp/fullmesh-ran"
tx.arm(run, "killed", 3, [path], [f"sleep 6; echo ran >> {ran}"])
open(path, "w").write("new")
folder = tx.folder("killed")
while tx.state_of(folder) != "restoring" or os.path.exists(path):
    time.sleep(0.1)
time.sleep(1)
assert run(["systemctl", "kill", "--signal=KILL", tx.unit("killed") + ".service"])[0] == 0
open(path, "w").write("half")
end = time.monotonic() + 60
while tx.state_of(folder) != "fired":
    assert time.monotonic() < end, open(tx.STORE + "/log").read()
    time.sleep(0.2)
assert not os.path.exists(path)
print(open(ran).read().split(), tx.disarm(run, "killed"))
os.unlink(ran)
"""


@pytest.mark.rest
def test_a_rollback_that_is_killed_continues(lab: Lab, cut: MakeCut) -> None:
    """Kill the rollback, as the kernel does when memory runs out. Systemd restarts it, and it finishes."""
    with cut("rollback killed"):
        for node in lab.nodes:
            assert node.engine(KILLED) == "['ran'] fired"


REREAD = """
path = "/etc/fullmesh-reread"
words = []
for verb in ("daemon-reload", "daemon-reexec"):
    tx.arm(run, "reread", 8, [path], [])
    open(path, "w").write("new")
    begun = tx.read_json(tx.folder("reread") + "/journal.json")["monotonic"]
    while tx.state_of(tx.folder("reread")) != "fired":
        assert time.monotonic() < begun + 60, open(tx.STORE + "/log").read()
        run(["systemctl", verb])
        time.sleep(0.5)
    words.append(tx.report_of("reread")["after"])
    assert not os.path.exists(path)
    tx.disarm(run, "reread")
print(*words)
"""


def test_systemd_that_is_reloaded_repeatedly(lab: Lab, cut: MakeCut) -> None:
    """Reload systemd again and again.

    The guard must still fire on time.

    A systemd timer restarted at each reload, so the node never reverted (drawn cut 55). The guard
    no longer uses one.
    """
    with cut("systemd reads its units again and again"):
        said = on_all(lab, REREAD)
    for name, words in said.items():
        print(name, words)  # noqa: T201 (measured seconds, of the 8 s promised)


SIGNALLED = """
path = "/etc/fullmesh-signalled"
for name in ("TERM", "INT", "HUP", "KILL"):
    tx.arm(run, "signalled", 5, [path], [])
    open(path, "w").write("new")
    assert run(["systemctl", "kill", "--signal=" + name, tx.unit("signalled") + ".service"])[0] == 0
    end = time.monotonic() + 60
    while tx.state_of(tx.folder("signalled")) != "fired":
        assert time.monotonic() < end, (name, open(tx.STORE + "/log").read())
        time.sleep(0.2)
    assert not os.path.exists(path)
    print(name, tx.disarm(run, "signalled"), end=" ")
"""


@pytest.mark.rest
def test_a_guard_that_is_killed_starts_again(lab: Lab, cut: MakeCut) -> None:
    """Kill the guard with SIGTERM, as `pkill python3` does. Systemd regards that as a normal end."""
    with cut("guard ended"):
        for node in lab.nodes:
            assert node.engine(SIGNALLED) == "TERM fired INT fired HUP fired KILL fired"


SECOND = """
try:
    tx.arm(run, "second", 9, [], [])
except tx.RollbackError as exc:
    print(exc)
"""


def test_two_runs_at_once(lab: Lab, cut: MakeCut) -> None:
    """Start a second run while the first one waits. It is refused with the start time of the first."""
    with cut("two runs at once"):
        play = lab.start(lab.link, cut_seconds=90)
        play.until(r"TASK .*confirm \| Open a new connection")
        play.kill()
        wait_for(lambda: all("applied" in node.log() for node in lab.nodes))
        for node in lab.nodes:
            said = node.engine(SECOND)
            assert "[TX-101] The change 'static_ip'" in said, said
        # Stop here, because the guard's delay depends on how busy the machine is.
        for node in lab.nodes:
            node.engine('tx.fire(run, "static_ip", "the test says so")')


# --- node by node
# -----------------------------------------------------------------------------------


@pytest.mark.rest
def test_rolling_stops_at_the_first_that_fails(lab: Lab, cut: MakeCut) -> None:
    """With serial 1, the first node fails and the second one is not changed."""
    first, second = lab.nodes
    with cut("rolling: the first node fails"):
        words = lab.start(
            lambda node: lab.link(node, gateway=f"{lab.net}.99" if node is first else lab.gateway),
            cut_serial=1,
        ).end()
        assert second.log() == ""
    says(words, f"[IP-113] {first.name}", "PLAY RECAP")
    assert f"[{second.name}]" not in words.split("PLAY RECAP")[0]


@pytest.mark.rest
def test_controller_gives_up_before_the_deadline(lab: Lab, cut: MakeCut) -> None:
    """The controller reports that it gives up, and the node reverts without it."""
    with cut("controller gives up before the deadline"):
        words = lab.start(
            lambda node: lab.link(node, gateway=f"{lab.net}.99"),
            cut_seconds=40,
            __static_ip_return_seconds=3,
            __static_ip_patience=3,
        ).end()
    says(words, f"[IP-117] {lab.nodes[0].name} does not answer at", "Look at its console")
