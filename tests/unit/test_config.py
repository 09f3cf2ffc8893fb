"""The configuration: what is taken, what is refused, and with which words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from rocmwatch.config import Address, Config, Exporter, Sampling, json_schema, parse, problems_with_watchdog
from rocmwatch.config.document import Document, read_document
from rocmwatch.config.problems import problems_of
from rocmwatch.config.tree import merge
from rocmwatch.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parents[2]
FIXTURES = REPOSITORY / "tests" / "fixtures" / "config"
GOOD = sorted((FIXTURES / "good").glob("*.yaml"))
BAD = sorted((FIXTURES / "bad").glob("*.yaml"))
SAMPLE = REPOSITORY / "systemd" / "rocmwatch.yaml"
SCHEMA = REPOSITORY / "docs" / "config.schema.json"


def expectation(text: str) -> str:
    return text.split("\n", 1)[0].removeprefix("# expect: ")


def problems(*texts: str) -> tuple[str, ...]:
    """What is wrong with files 1.yaml, 2.yaml, ..."""
    with pytest.raises(ConfigError) as raised:
        parse({f"{number}.yaml": text for number, text in enumerate(texts, 1)})
    return raised.value.problems


def flat(config: Config) -> dict[str, Any]:
    sections = config.model_dump(by_alias=True)
    return {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}


class TestFixtures:
    @pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
    def test_a_good_file_says_what_it_says_and_the_rest_is_default(self, path: Path) -> None:
        text = path.read_text()
        assert {**flat(Config()), **json.loads(expectation(text))} == flat(parse({path.name: text}))

    @pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
    def test_a_bad_file_is_refused_with_the_one_sentence_it_deserves(self, path: Path) -> None:
        text = path.read_text()
        assert (f"1.yaml:{expectation(text)}",) == problems(text)

    def test_there_are_files_to_test(self) -> None:
        assert len(GOOD) >= 10
        assert len(BAD) >= 25


class TestDefaults:
    @pytest.mark.parametrize(
        "text", ["", "\n", "# nothing\n", "---\n", "--- ~\n", "{}\n", "\ufeff", "\ufeffsampling:\r\n"]
    )
    def test_a_file_that_says_nothing_leaves_the_defaults(self, text: str) -> None:
        assert Config() == parse({"empty.yaml": text})

    def test_no_file_leaves_the_defaults(self) -> None:
        assert Config() == parse({})

    def test_the_defaults_are_the_documented_ones(self) -> None:
        config = Config()
        assert config.sampling.backend == "auto"
        assert config.sampling.interval_seconds == 5
        assert config.sampling.sensors_seconds == 5
        assert config.sampling.fragmentation_seconds == 60
        assert config.sampling.ras_seconds == 300
        assert config.sampling.deadline_seconds == 1
        assert config.exporter.listen == Address("127.0.0.1", 19300)
        assert config.exporter.reload is False
        assert config.log.level == "info"
        assert config.log.format == "auto"

    def test_a_configuration_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError):
            Config().sampling.interval_seconds = 1  # type: ignore[misc]


class TestManyProblems:
    def test_every_problem_of_every_file_comes_at_once_in_file_order(self) -> None:
        first = "log:\n  level: loud\nsampling:\n  interval: 5\n  colour: red\n"
        second = "exporter:\n  reload: 2\nexporter:\n  listen: here\n  \tx: y\n"
        assert problems(first, second) == (
            '1.yaml:2: log.level "loud" is none of debug, info, warning, error',
            '1.yaml:4: sampling.interval "5" has no unit; write 5s for seconds',
            '1.yaml:5: unknown key "colour" in sampling; known here: '
            "backend, interval, sensors, fragmentation, ras, processes, deadline",
            '2.yaml:2: exporter.reload "2" is neither true nor false',
            '2.yaml:3: "exporter" is set twice; the first time on line 1',
            '2.yaml:4: exporter.listen "here" has no port; write "127.0.0.1:19300", or ":19300" for all addresses',
            "2.yaml:5: a tab; YAML takes only spaces here",
        )

    def test_two_pairs_that_do_not_fit_are_both_named(self) -> None:
        assert problems("sampling:\n  interval: 4s\n  deadline: 5s\n  sensors: 3s\n") == (
            "1.yaml:3: sampling.deadline 5s is above sampling.interval, 4s: "
            "a read that takes so long would run into the next one",
            "1.yaml:4: sampling.sensors 3s is below sampling.interval, 4s, which sets the pace",
        )

    def test_an_option_that_follows_a_refused_one_is_no_problem_of_its_own(self) -> None:
        assert problems("sampling:\n  interval: 5\n") == (
            '1.yaml:2: sampling.interval "5" has no unit; write 5s for seconds',
        )

    def test_a_value_that_a_later_file_covers_is_still_checked(self) -> None:
        assert problems("log:\n  level: loud\n", "log:\n  level: info\n") == (
            '1.yaml:2: log.level "loud" is none of debug, info, warning, error',
        )

    def test_pairs_are_not_judged_while_a_file_cannot_be_read_to_its_end(self) -> None:
        first = "sampling:\n  deadline: 2s\n  interval: 1s\n"
        assert problems(first, "sampling:\n  deadline: '1s\n") == ("2.yaml:2: a quote that is never closed",)

    def test_keys_before_an_error_of_syntax_are_checked(self) -> None:
        assert problems("log:\n  levle: info\n  format: 'json\n") == (
            '1.yaml:2: unknown key "levle" in log; did you mean "level"?',
            "1.yaml:3: a quote that is never closed",
        )


class TestMerging:
    def test_a_later_file_replaces_values_and_leaves_the_rest(self) -> None:
        config = parse(
            {
                "rocmwatch.yaml": "sampling:\n  interval: 2s\n  sensors: 4s\nlog:\n  level: debug\n",
                "conf.d/10.yaml": "sampling:\n  interval: 3s\n",
                "conf.d/20.yaml": "sampling:\nlog:\n  format: json\n",
            }
        )
        assert config.sampling.interval_seconds == 3
        assert config.sampling.sensors_seconds == 4
        assert (config.log.level, config.log.format) == ("debug", "json")

    def test_a_pair_across_files_names_both_places(self) -> None:
        assert problems("sampling:\n  sensors: 5s\n", "sampling:\n\n  interval: 10s\n") == (
            "1.yaml:2: sampling.sensors 5s is below sampling.interval, 10s, which sets the pace (2.yaml:3)",
        )

    def test_a_pair_that_a_later_file_mends_is_no_problem(self) -> None:
        config = parse({"a": "sampling: {interval: 10s, sensors: 5s}", "b": "sampling: {sensors: 10s}"})
        assert config.sampling.sensors_seconds == 10

    def test_lists_replace_lists_and_mappings_inside_them_keep_their_places(self) -> None:
        tree = merge(
            [
                (0, "a", read_document("units:\n- {match: x}\n- {match: y}\n")),
                (1, "b", read_document("units:\n- match: z\n  url: u\n")),
            ]
        )
        assert tree.values == {"units": [{"match": "z", "url": "u"}]}
        assert tree.place(("units", 0, "url"))[1:] == ("b", 3)

    def test_a_section_that_becomes_a_word_is_refused_where_it_does(self) -> None:
        assert problems("log:\n  level: info\n", "log: quiet\n") == (
            '2.yaml:1: log takes keys below it (level, format), not "quiet"',
        )


class TestHostileText:
    def test_more_than_a_mebibyte_is_refused_unread(self) -> None:
        assert problems("#" * 1024 * 1024 + "\n") == ("1.yaml:1: larger than 1 MiB, which no configuration is",)

    def test_a_mebibyte_is_read(self) -> None:
        assert Config() == parse({"1.yaml": "#" * 1024 * 1024})

    def test_aliases_do_not_multiply(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
        assert len(problems("\n".join(lines))) == 10 + 9 + 10  # anchors, aliases (one line a row), unknown keys

    @pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "a: [", "[{"])
    def test_depth_is_refused_before_it_costs_anything(self, opening: str) -> None:
        assert "1.yaml:1: nested deeper than 16 levels" in problems(opening * 100_000)

    def test_problems_show_no_control_characters_and_no_endless_text(self) -> None:
        key, value = '"\\e[31m' + "k" * 900 + '"', '"\\a' + "v" * 5000 + '"'
        with pytest.raises(ConfigError) as raised:
            parse({"odd\x1b\nname.yaml": f"log:\n  level: {value}\n  {key}: 1\n"})
        for problem in raised.value.problems:
            assert problem.isprintable()
            assert problem.startswith(r"odd\x1b\nname.yaml:")
            assert len(problem) < 300
        assert len(raised.value.problems) == 2

    def test_lines_are_counted_as_editors_do(self) -> None:
        assert problems("log:\r\n  level: loud\r\n")[0].startswith("1.yaml:2: ")


class TestValuesFromCode:
    def test_numbers_are_seconds(self) -> None:
        assert Sampling(interval=0.5).interval_seconds == 0.5
        assert Sampling(interval=0.5).deadline_seconds == 0.5

    def test_numbers_have_the_same_limits(self) -> None:
        with pytest.raises(ValidationError):
            Sampling(interval=0.05)

    def test_addresses_and_switches_are_taken_as_they_are(self) -> None:
        exporter = Exporter(listen=Address("::1", 9), reload=True)
        assert (exporter.listen, exporter.reload) == (Address("::1", 9), True)

    @pytest.mark.parametrize("text", ["127.0.0.1:19300", "[::1]:19300", ":19300", "localhost:1"])
    def test_an_address_is_shown_as_it_is_written(self, text: str) -> None:
        assert text == str(Address.parse(text))

    def test_brackets_belong_to_the_text_and_not_to_the_host(self) -> None:
        assert Address("::1", 19300) == Address.parse("[::1]:19300")
        assert Address("", 19300) == Address.parse(":19300")

    def test_a_refusal_that_has_no_sentence_yet_gets_a_plain_one(self) -> None:
        line_errors: Any = [{"type": "int_parsing", "loc": ("log", "level"), "input": "x"}]
        error = ValidationError.from_exception_data("Config", line_errors)
        tree = merge([(0, "a", Document((), (), is_complete=True))])
        (problem,) = problems_of(error, tree)
        assert problem.line() == 'a:1: log.level cannot be "x"'


class TestWatchdog:
    def test_an_interval_up_to_a_third_is_fine(self) -> None:
        assert problems_with_watchdog(parse({"a": "sampling: {interval: 10s}"}), 30.0) == ()

    def test_an_interval_above_a_third_is_a_problem(self) -> None:
        assert problems_with_watchdog(parse({"a": "sampling: {interval: 10001ms}"}), 30.0) == (
            "sampling.interval 10001ms is above a third of the unit's WatchdogSec, 30s: systemd would end a healthy "
            "service; set it to 10s or less, or raise WatchdogSec",
        )

    def test_what_it_proposes_is_fine(self) -> None:
        (problem,) = problems_with_watchdog(Config(), 10.0)
        proposed = re.search(r"set it to (\w+) or less", problem)
        assert proposed is not None
        assert problems_with_watchdog(parse({"a": f"sampling: {{interval: {proposed[1]}}}"}), 10.0) == ()

    def test_without_a_watchdog_there_is_no_problem(self) -> None:
        assert problems_with_watchdog(parse({"a": "sampling: {interval: 1h}"}), 0.0) == ()


class TestSchema:
    def test_the_file_in_docs_is_the_one_that_the_code_gives(self) -> None:
        assert json_schema() == json.loads(SCHEMA.read_text()), (
            "rocmwatch check-config --schema >docs/config.schema.json"
        )

    def test_it_is_a_schema(self) -> None:
        jsonschema.Draft202012Validator.check_schema(json_schema())

    def test_its_defaults_are_the_defaults(self) -> None:
        sections = json_schema()["$defs"].values()
        defaults = {key: option["default"] for section in sections for key, option in section["properties"].items()}
        assert defaults == {key.partition(".")[2]: value for key, value in flat(Config()).items()}

    def test_every_option_is_described(self) -> None:
        for section in json_schema()["$defs"].values():
            assert section["description"].endswith(".")
            for option in section["properties"].values():
                assert option["description"].endswith(".")

    @pytest.mark.parametrize(
        "path", [path for path in GOOD if "in_quotes" not in path.stem], ids=lambda path: path.stem
    )
    def test_an_editor_accepts_good_files(self, path: Path) -> None:
        jsonschema.validate(yaml.safe_load(path.read_text()), json_schema())

    @pytest.mark.parametrize(
        "path",
        [path for path in BAD if re.match("unknown_[ks]|choice|duration|switch|value|section|document_is", path.stem)],
        ids=lambda path: path.stem,
    )
    def test_an_editor_marks_unknown_keys_and_values_of_the_wrong_kind(self, path: Path) -> None:
        assert not jsonschema.Draft202012Validator(json_schema()).is_valid(yaml.safe_load(path.read_text()))


class TestShippedFile:
    def test_it_loads_and_says_nothing_but_the_defaults(self) -> None:
        assert Config() == parse({SAMPLE.name: SAMPLE.read_text()})

    def test_with_every_option_uncommented_it_still_says_the_defaults(self) -> None:
        assert Config() == parse({SAMPLE.name: uncommented(SAMPLE.read_text())})

    def test_it_names_every_option_and_none_that_does_not_exist(self) -> None:
        named = yaml.safe_load(uncommented(SAMPLE.read_text()))
        assert flat(Config()).keys() == {f"{section}.{key}" for section in named for key in named[section]}

    def test_it_shows_the_defaults_as_they_are_printed(self) -> None:
        assert Config().model_dump(by_alias=True) == yaml.safe_load(uncommented(SAMPLE.read_text()))

    def test_every_option_follows_a_comment_that_tells_why(self) -> None:
        lines = SAMPLE.read_text().splitlines()
        for number, line in enumerate(lines):
            if re.match(r" *#\w+:", line):
                assert lines[number - 1].strip().startswith("# ")
                assert lines[number - 2].strip().startswith("# ")


def uncommented(text: str) -> str:
    """The text as it is when someone removes the "#" in front of each option."""
    return re.sub(r"^( *)#(?=\w+:)", r"\1", text, flags=re.MULTILINE)
