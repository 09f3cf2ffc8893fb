from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.process import Stat, parse_cgroup, parse_stat

TAIL = b" S 41 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 918273 1000 20 18446744073709551615 1 1\n"


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
    assert parse_stat(b"4242 (" + name + b")" + TAIL) == Stat(expected, "S", 41, 918273)


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
