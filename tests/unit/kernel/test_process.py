from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.process import Stat, Status, parse_cgroup, parse_invocation, parse_stat, parse_status

TAIL = b" S 41 42 43 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 918273 1000 20 18446744073709551615 1 1\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"VLLM::EngineCor", "VLLM::EngineCor"),
        (b"a) S 1 1 (b", "a) S 1 1 (b"),
        (b"two\nlines", "two\ufffdlines"),
        (b"\xff\x1b[2J", "\\xff\ufffd[2J"),
        (b"", ""),
        (b"<b>", "<b>"),
    ],
)
def test_a_name_may_hold_anything(name: bytes, expected: str) -> None:
    assert parse_stat(b"4242 (" + name + b")" + TAIL) == Stat(expected, "S", 41, 42, 43, 918273)


@pytest.mark.parametrize("raw", [b"\n", b"", b"\0\0"])
def test_nothing_is_no_process(raw: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        parse_stat(raw)
    assert caught.value.errno == "ENODATA"


@pytest.mark.parametrize(
    "raw", [b"4242 (x) S 1 2 3\n", b"4242 x S 1\n", b"(x)", b"4242 (x)" + TAIL.replace(b"918273", b"x")]
)
def test_a_stat_that_was_cut_is_refused(raw: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        parse_stat(raw)
    assert caught.value.errno == "EBADMSG"


def test_the_kernel_and_this_module_agree_on_ourselves() -> None:
    stat = parse_stat(Path("/proc/self/stat").read_bytes())

    assert (stat.parent, stat.state) == (os.getppid(), "R")
    assert (stat.group, stat.session) == (os.getpgrp(), os.getsid(0))
    assert stat.comm == Path("/proc/self/comm").read_text().strip()
    ticks = os.sysconf("SC_CLK_TCK")
    assert 0 < stat.start_time / ticks <= float(Path("/proc/uptime").read_text().split()[0])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"0::/system.slice/vllm@0.service\n", "/system.slice/vllm@0.service"),
        (b"12:memory:/docker/ab\n1:name=systemd:/docker/cd\n0::/\n", "/docker/cd"),
        (b"1:name=systemd:/user.slice\n", "/user.slice"),
        (b"0::/a:b\n", "/a:b"),
        (b"0::/\n", "/"),
        (b"5:cpu,cpuacct:/x\n", None),
        (b"", None),
        (b"0::/\xff\n", "/\\xff"),
    ],
)
def test_the_control_group_is_that_of_the_unified_hierarchy(raw: bytes, expected: str | None) -> None:
    assert expected == parse_cgroup(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            b"Name:\tx\nUid:\t1000\t0\t0\t0\nNSpid:\t4242\t7\nThreads:\t9\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n",
            Status(1000, 2, 9, True),
        ),
        (b"SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n", Status(None, None, None, True)),
        (b"SigPnd:\t0000000000000080\nShdPnd:\t0000000000004002\n", Status(None, None, None, False)),
        (b"ShdPnd:\t0000000000000100\n", Status(None, None, None, None)),
        (b"SigPnd:\tx\nShdPnd:\t1\nUid:\nThreads:\t-1\n", Status(None, None, None, None)),
        (b"", Status(None, None, None, None)),
    ],
)
def test_a_status_says_what_it_says(raw: bytes, expected: Status) -> None:
    assert expected == parse_status(raw)


def test_the_status_of_ourselves_is_understood() -> None:
    status = parse_status(Path("/proc/self/status").read_bytes())

    assert (status.uid, status.kill_pending) == (os.getuid(), False)
    assert (status.namespaces or 0) >= 1


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"A=b\0INVOCATION_ID=" + b"0a" * 16 + b"\0C=d\0", "0a" * 16),
        (b"INVOCATION_ID=" + b"0a" * 16, "0a" * 16),
        (b"X_INVOCATION_ID=" + b"0a" * 16, None),
        (b"INVOCATION_ID=short\0", None),
        (b"INVOCATION_ID=" + b"\xff" * 32 + b"\0", None),
        (b"VLLM::EngineCore\0\0\0\0", None),
        (b"", None),
    ],
)
def test_an_environment_names_the_start_of_its_service(raw: bytes, expected: str | None) -> None:
    assert expected == parse_invocation(raw)
