"""Whatever the text: a configuration, or problems that a person can find in the file."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.config import Config, parse
from rocmwatch.config.quantities import format_duration, parse_duration
from rocmwatch.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parents[2]
FIXTURES = sorted((REPOSITORY / "tests" / "fixtures" / "config").glob("*/*.yaml"))
SHIPPED = re.sub(r"^( *)#(?=\w+:)", r"\1", (REPOSITORY / "systemd" / "rocmwatch.yaml").read_text(), flags=re.MULTILINE)
TEXTS = [SHIPPED, *(path.read_text() for path in FIXTURES)]

CHARACTERS = "\t\n:-?[]{},\"'|>#%@!&*=~\\\x00\ufeff\x85"
WORDS = "sampling interval deadline exporter listen reload log level null on 010 1e9 .inf 5s &a *a !!int --- ... <<"
PIECES = (
    st.sampled_from(CHARACTERS)
    | st.sampled_from(WORDS.split())
    | st.sampled_from(("  ", ": ", "- ", "? ", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", r"\Uffffffff", r"\ud800"))
)


def outcome(files: dict[str, str]) -> tuple[Config | None, tuple[str, ...]]:
    try:
        return parse(files), ()
    except ConfigError as error:
        return None, error.problems


def check(*texts: str) -> None:
    files = {f"{number}.yaml": text for number, text in enumerate(texts, 1)}
    config, problems = outcome(files)
    assert (config is None) == bool(problems)
    for problem in problems:
        match = re.fullmatch(r"([0-9]+\.yaml):([0-9]+): (.+)", problem)
        assert match is not None
        assert 1 <= int(match[2]) <= len(re.split("\r\n|[\r\n\x85\u2028\u2029]", files[match[1]]))
        assert problem.isprintable()
        assert len(problem) < 400
        assert not re.search(r"pydantic|Input should|object at|Error", match[3])
    if config is not None:
        assert config == parse({"printed.yaml": yaml.safe_dump(config.model_dump(by_alias=True))})


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of our files after a few slips of the hand."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(PIECES | st.text(max_size=3)) + text[end:]
    return text


@given(st.text())
def test_any_text_is_a_configuration_or_has_problems(text: str) -> None:
    check(text)


@given(st.lists(PIECES | st.text(max_size=2), max_size=30).map("".join))
def test_any_heap_of_yaml_is_a_configuration_or_has_problems(text: str) -> None:
    check(text)


@given(mutated())
def test_a_file_with_slips_is_a_configuration_or_has_problems(text: str) -> None:
    check(text)


@given(mutated(), mutated())
def test_files_over_each_other_are_a_configuration_or_have_problems(first: str, second: str) -> None:
    check(first, second)


@given(st.integers(0, 86_400_000))
def test_a_duration_is_read_as_it_is_written(milliseconds: int) -> None:
    text = format_duration(milliseconds / 1000)
    assert milliseconds / 1000 == parse_duration(text)
    assert re.fullmatch(r"[0-9]+(ms|s|min|h|d)", text)


@given(st.integers(100, 3_600_000), st.integers(1000, 3_600_000), st.integers(50, 10_000))
def test_pairs_are_taken_exactly_when_they_fit(interval: int, sensors: int, deadline: int) -> None:
    text = f"sampling:\n  interval: {interval}ms\n  sensors: {sensors}ms\n  deadline: {deadline}ms\n"
    config, problems = outcome({"a.yaml": text})
    assert (sensors < interval) + (deadline > interval) == len(problems)
    if config is not None:
        assert (interval / 1000, sensors / 1000) == (config.sampling.interval_seconds, config.sampling.sensors_seconds)


@given(st.integers(100, 3_600_000))
def test_any_interval_alone_is_enough(milliseconds: int) -> None:
    sampling = parse({"a.yaml": f"sampling: {{interval: {milliseconds}ms}}"}).sampling
    assert sampling.deadline_seconds <= sampling.interval_seconds <= sampling.sensors_seconds
    assert sampling.interval_seconds <= sampling.fragmentation_seconds
    assert sampling.interval_seconds <= sampling.ras_seconds
