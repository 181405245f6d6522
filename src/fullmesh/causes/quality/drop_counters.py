"""Counters that the kernel raises when it drops packets."""

from __future__ import annotations

# Counter -> what throws packets away, and what shows it (xfrm_proc.rst, snmp_counter.rst of the kernel).
XFRM = "ip xfrm policy; ip xfrm state; ip xfrm monitor"


MEANS = {
    "Xfrm.XfrmOutPolBlock": ("an IPsec policy forbids outgoing packets", XFRM),
    "Xfrm.XfrmInPolBlock": ("an IPsec policy forbids incoming packets", XFRM),
    "Xfrm.XfrmOutPolDead": ("an expired IPsec policy holds outgoing packets", XFRM),
    "Xfrm.XfrmOutNoStates": (
        "an IPsec policy requires encryption, but there are no keys for it",
        XFRM,
    ),
    "Xfrm.XfrmInTmplMismatch": (
        "an IPsec policy requires encryption, but incoming packets have none",
        XFRM,
    ),
    "Xfrm.XfrmInNoStates": ("there is no key for incoming encrypted packets", XFRM),
    "Xfrm.XfrmInNoPols": ("no IPsec policy allows the incoming packets", XFRM),
    "Xfrm.XfrmAcquireError": (
        "an IPsec policy requires encryption, but no service can create keys",
        XFRM,
    ),
    "TcpExt.TCPMD5NotFound": ("connections require signatures (TCP-MD5) but have none", "ss -tinM"),
    "TcpExt.TCPMD5Unexpected": (
        "connections carry unexpected TCP-MD5 signatures",
        "ss -tinM",
    ),
    "TcpExt.TCPMD5Failure": ("signatures of connections (TCP-MD5) are wrong", "ss -tinM"),
    "TcpExt.TCPAORequired": ("connections require signatures (TCP-AO) but have none", "ss -tin"),
    "TcpExt.TCPAOKeyNotFound": ("connections are signed (TCP-AO) with an unknown key", "ss -tin"),
    "TcpExt.TCPMinTTLDrop": ("packets arrive with a smaller TTL than a socket accepts", "ss -tin"),
    "TcpExt.TCPRcvQDrop": (
        "there is no buffer space for incoming packets",
        "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_mem",
    ),
}
