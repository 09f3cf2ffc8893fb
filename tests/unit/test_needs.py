"""A missing tool is a loud skip, and a failure where it is required."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import needs
import pytest

CASE = """
import pytest

@pytest.mark.recorded
def test_a_marked_test_runs_only_with_recorded_trees(recorded):
    assert recorded.is_dir()

@pytest.mark.promtool
def test_a_test_that_skips_for_a_reason_of_its_own():
    pytest.skip("not today")
"""


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The exit code and the output of pytest, run on CASE with our conftest."""
    (tmp_path / "test_case.py").write_text(CASE)
    (tmp_path / "conftest.py").write_text((needs.REPOSITORY / "tests" / "conftest.py").read_text())

    def run(require: str) -> tuple[int, str]:
        monkeypatch.setenv("ROCMWATCH_RECORDED", str(tmp_path / "nothing"))
        monkeypatch.setenv("ROCMWATCH_REQUIRE", require)
        monkeypatch.setenv("PYTHONPATH", str(needs.REPOSITORY / "tests"))
        markers = ["-o", "markers=recorded\npromtool", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-rs", "-c", "/dev/null", "--rootdir", ".", *markers, "test_case.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def test_what_is_missing_is_skipped_with_its_reason(outcome):
    code, output = outcome("")
    assert code == 0, output
    assert "2 skipped" in output
    assert "no recorded trees at" in output


def test_what_is_missing_fails_where_it_is_required(outcome):
    code, output = outcome("recorded,promtool")
    assert code == 1, output
    assert "skipped" not in output.splitlines()[-1]
    assert "recorded is required here (ROCMWATCH_REQUIRE): no recorded trees at" in output


def test_all_requires_everything(monkeypatch):
    monkeypatch.setenv("ROCMWATCH_REQUIRE", "all")
    assert needs.required("promtool")


def test_a_name_without_a_check_is_a_program():
    assert needs.missing("sh") is None
    assert needs.missing("no-such-program") == "not installed: no-such-program"


def test_golden_shows_the_difference(golden, monkeypatch, tmp_path, request):
    if request.config.getoption("--update-golden"):
        pytest.skip("nothing is compared when the texts are rewritten")
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    monkeypatch.setitem(golden.__globals__, "GOLDEN", tmp_path)
    golden("words.txt", "one\ntwo\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-two\n\+three"):
        golden("words.txt", "one\nthree\n")
    with pytest.raises(pytest.fail.Exception, match="does not exist"):
        golden("other.txt", "one\n")
