"""A host name cannot be resolved

The name{detail} could not be resolved to an address: it is in neither /etc/hosts nor DNS on this
node, or the name server does not answer.

**Place:** the node of this log

**Prove:** on that node: getent ahosts NAME, or run ./fullmesh verify -i INVENTORY (VC-101)

**Fix:** Use addresses, or add the names: ./fullmesh apply -i INVENTORY -- --tags network writes
every peer into /etc/hosts. In Kubernetes, use the full name of the headless service.

**Source:** read: getaddrinfo(3), NCCL's socket.cc, OpenSSH
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-528",
    __doc__,
    examples=(
        "socket.gaierror: [Errno -2] Name or service not known",
        (
            "n:1:2 [0] socket.cc:5 NCCL WARN Net : error encountered when getting address info : "
            "Name or service not known"
        ),
    ),
    patterns=(
        Pattern("gaierror: [Errno -", r"gaierror: \[Errno -[235]\] (?P<detail>)"),
        Pattern(
            "error encountered when getting address info",
            r"(?P<detail>)Net : error encountered when getting address info",
        ),
        Pattern(
            "Could not resolve hostname",
            r"ssh: Could not resolve hostname(?P<detail> [\w.-]{1,120})",
        ),
        Pattern("Unable to resolve ", r'rror: Unable to resolve(?P<detail> "[\w.-]{1,120}")'),
        Pattern(
            "ould not resolve host: ",
            r"[Cc]ould not resolve host:(?P<detail> [\w.-]{1,120})",
        ),
        # Go, gRPC, Node.js and Java
        Pattern(
            "no such host", r"\blookup(?P<detail> [\w.-]{1,120})(?: on \S{1,80})?: no such host"
        ),
        Pattern("dial tcp: lookup ", r"dial tcp: lookup(?P<detail> [\w.-]{1,120}): i/o timeout"),
        Pattern(
            "DNS resolution failed", r"DNS resolution failed(?: for(?P<detail> [\w.:-]{1,120}))?"
        ),
        Pattern("getaddrinfo ENOTFOUND", r"getaddrinfo ENOTFOUND(?P<detail> [\w.-]{1,120})"),
        Pattern("getaddrinfo EAI_AGAIN", r"getaddrinfo EAI_AGAIN(?P<detail> [\w.-]{1,120})"),
        Pattern("UnknownHostException", r"UnknownHostException:(?P<detail> [\w.-]{1,120})"),
        Pattern(
            "getaddrinfo",
            r"\A(?!.*(?:https?:|HTTPS?Conn)).*rror: .{0,200}getaddrinfo(?:\(\))?(?: failed)?:? "
            r"(?P<detail>)(?:Name or service not known"
            r"|Temporary failure in name resolution|nodename nor servname)",
        ),
        Pattern(
            "emporary failure in name resolution",
            r"\A(?!.*(?:https?:|HTTPS?Conn)).*(?:rror|FATAL|ailed)\b.{0,200}(?P<detail>)"
            r"Temporary failure in name resolution",
        ),
        Pattern(
            "unable to resolve host address",
            r"unable to resolve host address(?P<detail> \S{1,120})",
        ),
        Pattern(
            "Temporary failure resolving",
            r"Temporary failure resolving(?P<detail> '[\w.-]{1,120}')",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    yields=True,
    survivable=True,
    weight=77,
)
