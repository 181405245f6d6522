"""Find out whether a job's connections work.

It runs on a node as a job's account and does not use Fullmesh.

``serve`` opens one echoing listener for each port, prints the ports and the address that a job
would announce, and ends with its input. ``try`` connects to each given listener, sends a payload
and reads it back.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time

ACCOUNT = 1500
SIZE = 192 * 1024
SECONDS = 4.0
LOST_LEAST = 2  # of some hundred segments, because a link between two containers loses none
CONNECTIONS_LEAST, AGAIN = 3, 4
MASTER = 29500
FIXED = (32768, 41000, 47001, 52222, 58888, 60999)
GET_ADDRESS = 0x8915  # SIOCGIFADDR


def read_login_variables():
    """Return the variables that a login gets from /etc/environment."""
    try:
        with open("/etc/environment") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def find_announced_address():
    """Return the address that Gloo announces: of the configured interface, otherwise of the host's own name."""
    interface = read_login_variables().get("GLOO_SOCKET_IFNAME", "")
    if interface:
        for name in interface.split(","):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                try:
                    reply = fcntl.ioctl(probe, GET_ADDRESS, struct.pack("256s", name.encode()))
                    return socket.inet_ntoa(reply[20:24])
                except OSError:
                    return "none"
    try:
        answers = socket.getaddrinfo(socket.gethostname(), None, 0, socket.SOCK_STREAM)
    except OSError:
        return "127.0.0.1"
    for family, _, _, _, where in answers:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((where[0], 0))
                return where[0]
            except OSError:
                continue
    return "127.0.0.1"


def echo_payload(client):
    """Read the payload, and send it back."""
    with client:
        client.settimeout(30)
        left = SIZE
        try:
            while left:
                left -= len(client.recv(65536)) or left
            client.sendall(b"\0" * SIZE)
        except OSError:
            pass


def serve_clients(listener):
    """Serve every client."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=echo_payload, args=(client,), daemon=True).start()


def open_listeners(own, store, more):
    """Listen, and print the addresses. *store*: also on the store's port. *more*: additional ports."""
    ports = []
    for port in (*FIXED, 0, 0, *((MASTER,) if store else ()), *more):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((own, port))
            listener.listen()
        except OSError as error:
            if port not in more:  # another process may hold it
                ports.append([port, error.errno])
            continue
        ports.append([listener.getsockname()[1], 0])
        threading.Thread(target=serve_clients, args=(listener,), daemon=True).start()
    sys.stdout.write(json.dumps({"announced": find_announced_address(), "ports": ports}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def count_lost_segments(connection):
    """Return the number of lost segments from struct tcp_info (linux/tcp.h)."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256).ljust(256, b"\0")
    return max(0, struct.unpack_from("I", raw, 100)[0] - struct.unpack_from("I", raw, 216)[0])


def try_connection(address, port, seconds):
    """Try one connection in both directions. Return the error ("" for none) and the retransmissions."""
    ends = time.monotonic() + seconds
    try:
        with socket.create_connection((address, port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(b"\0" * SIZE)
            left = SIZE
            while left and time.monotonic() < ends:
                left -= len(connection.recv(65536)) or left * 2
            if left:
                return ("late" if left > 0 else "closed"), 0
            return (
                "lost" if count_lost_segments(connection) >= LOST_LEAST else ""
            ), count_lost_segments(connection)
    except OSError as error:
        return str(error.errno or error), 0


def try_twice(found, again, key, address, port):
    """Try twice, the second time with a longer timeout, so that a slow peer does not count as cut off."""
    error, again[key] = try_connection(address, port, SECONDS)
    found[key] = error and try_connection(address, port, 2 * SECONDS)[0]


def run_at_once(work, arguments):
    """Run one thread for each argument."""
    threads = [threading.Thread(target=work, args=one) for one in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def try_all(targets):
    """Try all targets at the same time."""
    found, again, twice = {}, {}, []
    where = {f"{name} {port}": (address, port) for name, address, port in targets}
    run_at_once(try_twice, [(found, again, key, *place) for key, place in where.items()])

    def once_more(key):
        ends = time.monotonic() + SECONDS
        for _ in range(AGAIN):
            if time.monotonic() < ends and try_connection(*where[key], SECONDS)[1]:
                twice.append(key)

    # One lost segment per connection can be the first one, which gets through a second later.
    # Targets with a lost segment are tried again, because a delay on a busy machine does not
    # repeat.
    for name in {key.split()[0] for key in again}:
        some = [key for key, count in again.items() if key.split()[0] == name and count]
        if len(some) >= CONNECTIONS_LEAST:
            run_at_once(once_more, [(key,) for key in some])
        if len(twice) >= CONNECTIONS_LEAST:
            found.update({key: found[key] or "lost" for key in set(twice)})
        twice.clear()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    os.setgid(ACCOUNT)
    os.setuid(ACCOUNT)
    if sys.argv[1] == "serve":
        open_listeners(
            sys.argv[2],
            "store" in sys.argv[3:],
            [int(one) for one in sys.argv[3:] if one.isdigit()],
        )
    else:
        try_all(json.loads(sys.argv[2]))
