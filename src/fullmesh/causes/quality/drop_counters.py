"""Counters that the kernel raises for packets which it drops."""

from __future__ import annotations

# Counter -> what throws packets away, and what shows it (xfrm_proc.rst, snmp_counter.rst of the kernel).
XFRM = "ip xfrm policy; ip xfrm state; ip xfrm monitor"


MEANS = {
    "Xfrm.XfrmOutPolBlock": ("an IPsec policy forbids what leaves", XFRM),
    "Xfrm.XfrmInPolBlock": ("an IPsec policy forbids what comes in", XFRM),
    "Xfrm.XfrmOutPolDead": ("an IPsec policy that has run out holds what leaves", XFRM),
    "Xfrm.XfrmOutNoStates": (
        "an IPsec policy wants encryption, and there are no keys for it",
        XFRM,
    ),
    "Xfrm.XfrmInTmplMismatch": (
        "an IPsec policy wants encryption, and what comes in has none",
        XFRM,
    ),
    "Xfrm.XfrmInNoStates": ("encrypted packets come in for which there is no key", XFRM),
    "Xfrm.XfrmInNoPols": ("no IPsec policy allows what comes in", XFRM),
    "Xfrm.XfrmAcquireError": ("an IPsec policy wants encryption, and nobody can make keys", XFRM),
    "TcpExt.TCPMD5NotFound": ("connections must be signed (TCP-MD5) and are not", "ss -tinM"),
    "TcpExt.TCPMD5Unexpected": ("connections are signed (TCP-MD5) and must not be", "ss -tinM"),
    "TcpExt.TCPMD5Failure": ("signatures of connections (TCP-MD5) are wrong", "ss -tinM"),
    "TcpExt.TCPAORequired": ("connections must be signed (TCP-AO) and are not", "ss -tin"),
    "TcpExt.TCPAOKeyNotFound": ("connections are signed (TCP-AO) with an unknown key", "ss -tin"),
    "TcpExt.TCPMinTTLDrop": ("packets come in with a smaller TTL than a socket accepts", "ss -tin"),
    "TcpExt.TCPRcvQDrop": (
        "there is no room for what comes in",
        "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_mem",
    ),
}
