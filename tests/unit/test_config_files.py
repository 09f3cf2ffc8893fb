"""The configuration's files: which are read, in which order, and what is said of those that cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.config import Config
from rocmwatch.errors import ConfigError
from rocmwatch.observe import config_files
from rocmwatch.observe.config_files import load


@pytest.fixture
def main(tmp_path: Path) -> Path:
    path = tmp_path / "rocmwatch.yaml"
    path.write_text("log:\n  level: debug\n")
    return path


@pytest.fixture
def drop_ins(tmp_path: Path) -> Path:
    path = tmp_path / "conf.d"
    path.mkdir()
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        load(str(path))
    return raised.value.problems


def test_the_main_file_is_enough(main: Path) -> None:
    assert load(str(main)).log.level == "debug"


def test_drop_ins_override_in_the_order_of_their_names(main: Path, drop_ins: Path) -> None:
    (drop_ins / "20-b.yaml").write_text("log:\n  level: error\n")
    (drop_ins / "10-a.yaml").write_text("log:\n  level: warning\n  format: json\n")
    config = load(str(main))
    assert (config.log.level, config.log.format) == ("error", "json")


def test_a_file_in_the_working_directory_finds_its_drop_ins(
    main: Path, drop_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (drop_ins / "a.yaml").write_text("log:\n  format: json\n")
    monkeypatch.chdir(main.parent)
    assert load(main.name).log.format == "json"


def test_only_yaml_files_that_are_not_hidden_are_read(main: Path, drop_ins: Path) -> None:
    for name in ("README", ".hidden.yaml", "a.yaml~", "a.yaml.rpmsave"):
        (drop_ins / name).write_text("nonsense")
    assert load(str(main)).log.level == "debug"


def test_a_drop_in_with_the_other_ending_is_not_passed_over_in_silence(main: Path, drop_ins: Path) -> None:
    (drop_ins / "a.yml").write_text("log:\n  level: error\n")
    assert problems(main) == (f"{drop_ins}/a.yml: is not read; a file here has to end in .yaml",)


def test_a_drop_in_can_be_masked(main: Path, drop_ins: Path) -> None:
    (drop_ins / "a.yaml").symlink_to("/dev/null")
    assert load(str(main)).log.level == "debug"


def test_a_pipe_is_a_problem_and_not_waited_for(main: Path, drop_ins: Path) -> None:
    os.mkfifo(drop_ins / "a.yaml")
    assert problems(main) == (f"{drop_ins}/a.yaml: a pipe, and no file",)


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent.yaml") == (f"{tmp_path}/absent.yaml: no such file",)


def test_the_default_file_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_files, "DEFAULT_PATH", str(tmp_path / "absent.yaml"))
    assert Config() == load(str(tmp_path / "absent.yaml"))


def test_drop_ins_are_read_without_the_default_file(
    tmp_path: Path, drop_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_files, "DEFAULT_PATH", str(tmp_path / "absent.yaml"))
    (drop_ins / "a.yaml").write_text("log:\n  level: error\n")
    assert load(str(tmp_path / "absent.yaml")).log.level == "error"


def test_a_drop_in_that_points_nowhere_is_a_problem(main: Path, drop_ins: Path) -> None:
    (drop_ins / "a.yaml").symlink_to("absent")
    assert problems(main) == (f"{drop_ins}/a.yaml: no such file",)


def test_a_folder_is_no_file(main: Path, drop_ins: Path) -> None:
    (drop_ins / "a.yaml").mkdir()
    assert problems(main) == (f"{drop_ins}/a.yaml: cannot be read: Is a directory",)


def test_a_conf_d_that_is_a_file_holds_no_drop_ins(main: Path) -> None:
    (main.parent / "conf.d").write_text("")
    assert load(str(main)).log.level == "debug"


def test_what_is_not_utf8_is_named_by_line_and_byte(main: Path) -> None:
    main.write_bytes(b"log:\n  level: inf\xf6\n")
    assert problems(main) == (f"{main}:2: not UTF-8 at byte 18",)


def test_what_is_too_large_is_not_read_to_its_end(main: Path) -> None:
    with open(main, "wb") as stream:
        stream.truncate(1 << 40)  # sparse: a reader that takes it all would be ended for it
    assert problems(main) == (f"{main}:1: larger than 1 MiB, which no configuration is",)


def test_problems_of_all_files_come_at_once(main: Path, drop_ins: Path) -> None:
    main.write_text("log:\n  level: loud\n")
    (drop_ins / "a.yaml").write_bytes(b"\xff")
    (drop_ins / "b.yaml").write_text("log:\n  format: xml\n")
    assert problems(main) == (
        f"{drop_ins}/a.yaml:1: not UTF-8 at byte 1",
        f'{main}:2: log.level "loud" is none of debug, info, warning, error',
        f'{drop_ins}/b.yaml:2: log.format "xml" is none of auto, console, json, journal',
    )


def test_a_file_name_that_is_not_text_is_shown_escaped(main: Path, drop_ins: Path) -> None:
    with open(os.fsencode(drop_ins) + b"/\xff\n.yaml", "wb") as stream:
        stream.write(b"log: 1\n")
    assert problems(main) == (f'{drop_ins}/\\udcff\\n.yaml:1: log takes keys below it (level, format), not "1"',)


def test_a_conf_d_that_cannot_be_read_is_a_problem(main: Path) -> None:
    (main.parent / "conf.d").symlink_to("conf.d")
    assert problems(main) == (f"{main.parent}/conf.d: cannot be read: Too many levels of symbolic links",)
