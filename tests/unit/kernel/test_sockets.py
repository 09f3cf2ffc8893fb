from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from rocmwatch.kernel.sockets import EPHEMERAL, listening_inodes, parse_port_range, socket_inode


def line(port: int, state: str = "0A", inode: str = "77") -> bytes:
    return (
        f"   0: 0100007F:{port:04X} 00000000:0000 {state} 0:0 00:0 0     0        0 {inode} 1 0 100 0 0 10 0\n".encode()
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (line(8000), {77}),
        (line(8000, "01"), set()),
        (line(40_000), set()),
        (line(EPHEMERAL[0] - 1) + line(EPHEMERAL[1] + 1, inode="78"), {77, 78}),
        (line(8000, inode="x"), set()),
        (b"  sl  local_address rem_address   st tx_queue\n", set()),
        (b"0: nonsense x 0A 1 2 3 4 5 77 6\n", {77}),
        (b"", set()),
    ],
)
def test_a_socket_that_serves_is_found(raw: bytes, expected: set[int]) -> None:
    assert expected == listening_inodes(raw)


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"1024\t2000\n", (1024, 2000)), (b"", EPHEMERAL), (b"a b", EPHEMERAL), (b"1 2 3", EPHEMERAL)]
)
def test_the_range_of_chosen_ports_is_the_kernels(raw: bytes, expected: tuple[int, int]) -> None:
    assert expected == parse_port_range(raw)


def test_the_kernel_and_this_module_agree() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        inode = socket_inode(os.readlink(f"/proc/self/fd/{server.fileno()}"))
        found = listening_inodes(Path("/proc/self/net/tcp").read_bytes(), (0, 0))

    assert inode in found


@pytest.mark.parametrize("link", ["", "/dev/null", "socket:[x]", "pipe:[7]", "socket:[7] (deleted)"])
def test_anything_else_is_no_socket(link: str) -> None:
    assert socket_inode(link) is None
