"""`rocmwatch check-config`: what it prints, and how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from rocmwatch.commands.check_config import check_config
from rocmwatch.config import SHIPPED_WATCHDOG_SECONDS, Config, json_schema, parse
from rocmwatch.observe import config_files


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


Run: TypeAlias = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("FILE", "--print")`: what the command does."""

    def call(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as raised:
            check_config.main(list(arguments))
        assert isinstance(raised.value.code, int)
        return Result(raised.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def main(tmp_path: Path) -> str:
    path = tmp_path / "rocmwatch.yaml"
    path.write_text("sampling:\n  interval: 250ms\nexporter:\n  listen: '[::1]:9'\n")
    return str(path)


def test_a_good_file_is_ok(main: str, run: Run) -> None:
    result = run(main)
    assert result == (0, f"{main}: ok\n", "")


def test_the_effective_values_can_be_read_back(main: str, run: Run) -> None:
    result = run(main, "--print")
    assert result.stdout.startswith(f"# {main}: ok\nsampling:\n  backend: auto\n  interval: 250ms\n")
    assert parse({"printed": result.stdout}) == parse({"file": Path(main).read_text()})
    assert "deadline: 250ms" in result.stdout
    assert result.exit_code == 0


def test_every_problem_is_a_line_on_stderr_and_the_status_is_78(main: str, run: Run) -> None:
    Path(main).write_text("log:\n  level: loud\n  colour: red\n")
    result = run(main, "--print")
    assert result.exit_code == 78
    assert result.stdout == ""
    assert result.stderr == (
        f'{main}:2: log.level "loud" is none of debug, info, warning, error\n'
        f'{main}:3: unknown key "colour" in log; known here: level, format\n'
    )


def test_what_only_the_shipped_unit_refuses_is_a_note(main: str, run: Run) -> None:
    Path(main).write_text("sampling:\n  interval: 15s\n")
    result = run(main)
    assert (0, f"{main}: ok\n") == (result.exit_code, result.stdout)
    assert result.stderr.startswith(f"{main}: the unit as shipped refuses this: sampling.interval 15s is above a third")


def test_the_unit_is_shipped_with_the_watchdog_that_it_speaks_of() -> None:
    unit = Path(__file__).resolve().parents[2] / "systemd" / "rocmwatch.service"
    assert f"WatchdogSec={SHIPPED_WATCHDOG_SECONDS:g}s" in unit.read_text().splitlines()


def test_drop_ins_are_checked_too(main: str, run: Run) -> None:
    folder = Path(main).parent / "conf.d"
    folder.mkdir()
    (folder / "a.yaml").write_text("nonsense: 1\n")
    assert run(main).exit_code == 78


def test_a_missing_file_is_refused(tmp_path: Path, run: Run) -> None:
    result = run(str(tmp_path / "absent.yaml"))
    assert (78, f"{tmp_path}/absent.yaml: no such file\n") == (result.exit_code, result.stderr)


def test_without_an_argument_it_is_the_default_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    path = str(tmp_path / "absent.yaml")
    monkeypatch.setattr(config_files, "DEFAULT_PATH", path)
    result = run()
    assert (0, f"{path}: ok (no such file, so the defaults apply)\n") == (result.exit_code, result.stdout)
    assert parse({"printed": run("--print").stdout}) == Config()


def test_the_schema_is_printed_for_editors(run: Run) -> None:
    result = run("--schema")
    assert (0, json_schema()) == (result.exit_code, json.loads(result.stdout))


def test_the_file_in_docs_is_its_output_to_the_byte(run: Run) -> None:
    docs = Path(__file__).resolve().parents[2] / "docs" / "config.schema.json"
    assert docs.read_text() == run("--schema").stdout
