r"""Which sockets listen: /proc/PID/net/tcp, tcp6 and unix, as that process's network sees them.

      sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
       0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 ...

`0A` is TCP_LISTEN; the number of the socket's inode is what a descriptor's link names (`socket:[12345]`).
Source: Documentation/networking/proc_net_tcp.rst, include/net/tcp_states.h, net/ipv4/tcp_ipv4.c.
"""

from __future__ import annotations

import re

_LISTENS = b"0A"
_RANGE = re.compile(rb"\s*([0-9]{1,5})\s+([0-9]{1,5})\s*")
EPHEMERAL = (32768, 60999)  # what the kernel uses unless it is told otherwise
_SOCKET = re.compile(r"socket:\[([0-9]{1,20})\]")


def listening_inodes(raw: bytes, ephemeral: tuple[int, int] = EPHEMERAL) -> set[int]:
    """The inodes of the sockets that serve: that wait for connections at a port that somebody chose.

    Workers of one engine meet at a port that the kernel picked, from the ephemeral range: that is no service.
    Lines that make no sense are left out.
    """
    found = set()
    for line in raw.splitlines():
        words = line.split(None, 10)
        if len(words) > 9 and words[3] == _LISTENS and words[9].isdigit():
            port = _hexadecimal(words[1].rpartition(b":")[2])
            if port is None or not ephemeral[0] <= port <= ephemeral[1]:
                found.add(int(words[9]))
    return found


def parse_port_range(raw: bytes) -> tuple[int, int]:
    """The ephemeral range, of /proc/sys/net/ipv4/ip_local_port_range."""
    found = _RANGE.fullmatch(raw)
    return (int(found[1]), int(found[2])) if found else EPHEMERAL


def socket_inode(link: str) -> int | None:
    """The inode that a descriptor's link names; `None` when it is no socket."""
    found = _SOCKET.fullmatch(link)
    return int(found[1]) if found else None


def _hexadecimal(text: bytes) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
