"""Who still hangs from an earlier start of the service, told from /proc and the cgroup."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.observe.leftovers import LeftOvers, own_service, service_folder


def members(folder: Path, *pids: int) -> None:
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


def test_whoever_is_in_the_cgroup_and_not_of_this_start_was_left_over(tmp_path: Path) -> None:
    members(tmp_path, 10, 11, 70, 71)

    assert 2 == len(LeftOvers(str(tmp_path), (70, 71)))


def test_one_that_is_gone_counts_no_more_and_nobody_joins(tmp_path: Path) -> None:
    members(tmp_path, 10, 11, 70)
    left = LeftOvers(str(tmp_path), (70,))
    members(tmp_path, 11, 70, 72, 73)
    left.look_again()

    assert 1 == len(left)


@pytest.mark.parametrize("content", [None, "", "nonsense\n"])
def test_a_cgroup_that_cannot_be_read_holds_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "cgroup.procs").write_text(content)

    assert 0 == len(LeftOvers(str(tmp_path)))


def test_outside_of_a_service_there_are_none() -> None:
    assert 0 == len(LeftOvers(None))


@pytest.mark.parametrize("environ", [{}, {"SYSTEMD_EXEC_PID": "1"}, {"SYSTEMD_EXEC_PID": "nonsense"}])
def test_a_process_that_systemd_did_not_start_belongs_to_no_service(environ: dict[str, str]) -> None:
    """A terminal may be a service; what else runs in it is no reader of ours."""
    assert None is own_service(environ)


UNIT = "/system.slice/rocmwatch.service"


@pytest.mark.parametrize(
    ("cgroup", "folder"),
    [
        (f"0::{UNIT}\n", "v2"),
        (f"12:pids:{UNIT}\n1:name=systemd:{UNIT}\n0::/x\n", "v1"),
        (f"5:memory:{UNIT}\n0::/user.slice/session-1.scope\n", None),
        ("0::/\n", None),
        ("0::/system.slice/none.service\n", None),
        (f"0::{UNIT}/init.scope\n", None),
        ("", None),
        ("nonsense\n:\n::\n0:\n", None),
        (f"0::/odd:name{UNIT}\n", None),
    ],
)
def test_the_service_is_found_in_either_kind_of_hierarchy(tmp_path: Path, cgroup: str, folder: str | None) -> None:
    roots = [str(tmp_path / "v1"), str(tmp_path / "v2")]
    if folder:
        os.makedirs(f"{tmp_path}/{folder}{UNIT}")
        Path(f"{tmp_path}/{folder}{UNIT}/cgroup.procs").touch()

    assert (f"{tmp_path}/{folder}{UNIT}" if folder else None) == service_folder(cgroup, roots)
