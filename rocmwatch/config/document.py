"""YAML text -> assignments with the line of each, and every problem that the text alone shows.

Only mappings, lists and text are read: what a word means (a duration, yes or no) is decided by the option it is given
to, so `010`, `on`, `1:30` and `1e3` hold no surprises. Anchors, aliases, tags and further documents are refused, and
size and depth are bounded, so no text can grow while it is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, cast

import yaml

MAX_CHARACTERS = 1024 * 1024
_MAX_DEPTH = 16  # the deepest option lies at 4

Path: TypeAlias = tuple[str | int, ...]


class Assignment(NamedTuple):
    """One key or list entry, in the order of the text.

    Attributes:
        path: The keys (and list positions) that lead to it.
        value: Its text; None where nothing is written; `{}` or `[]` opens a mapping or list, whose entries follow.
        line: Where its key stands, counted from 1.
        last_line: Where its text ends. A forgotten ":" or a wrong indentation makes a value of several lines.
    """

    path: Path
    value: str | dict[str, Any] | list[Any] | None
    line: int
    last_line: int


class Document(NamedTuple):
    """What one text says.

    Attributes:
        assignments: What was read, up to the first error of syntax.
        problems: Line and sentence of each problem.
        is_complete: Whether the text was read to its end.
    """

    assignments: tuple[Assignment, ...]
    problems: tuple[tuple[int, str], ...]
    is_complete: bool


def printable(text: str) -> str:
    """The text as one line that cannot move a terminal's cursor: other characters are escaped, long text is cut."""
    if len(text) > 200:
        text = text[:197] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(text: str) -> str:
    """The text as it is shown inside a sentence."""
    return f'"{printable(text if len(text) <= 60 else text[:57] + "...")}"'


def read_document(text: str) -> Document:
    """Reads YAML text; never raises, whatever the text is."""
    if len(text) > MAX_CHARACTERS:
        return Document((), ((1, "larger than 1 MiB, which no configuration is"),), is_complete=False)
    try:
        reader = _Reader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return Document((), ((line, f"the character U+{error.character:04X} has no place in YAML"),), is_complete=False)
    is_complete = reader.read()
    return Document(tuple(reader.assignments), tuple(reader.problems), is_complete)


class _TooDeepError(Exception):
    """The text is nested deeper than any option."""


class _Reader:
    """Turns the parser's events into assignments. Its composer would resolve types, and recurse without bound."""

    def __init__(self, text: str) -> None:
        self._parser: Any = yaml.SafeLoader(text)  # the stubs leave half of it untyped
        self.assignments: list[Assignment] = []
        self.problems: list[tuple[int, str]] = []

    def read(self) -> bool:
        """Reads the whole text, or up to the first error of syntax; returns whether it came to the end."""
        try:
            self._read_stream()
        except yaml.MarkedYAMLError as error:
            line, text = _syntax_problem(error)
        except _TooDeepError:
            line, text = self._line(), f"nested deeper than {_MAX_DEPTH} levels"
        except (ValueError, OverflowError):  # slips of the parser's own, e.g. "\Uffffffff" or %YAML 1.9999...
            line, text = self._line(), "an escape or a directive with an impossible number"
        else:
            return True
        finally:
            self._parser.dispose()
        self.problems.append((line, text))
        # What reaches into the line of the mistake is half-read.
        self.assignments = [assignment for assignment in self.assignments if assignment.last_line < line]
        return False

    def _read_stream(self) -> None:
        self._next()
        if self._is_next(yaml.StreamEndEvent):
            return
        self._next()
        self._read_root()
        self._next()
        if not self._is_next(yaml.StreamEndEvent):
            self._refuse(self._next(), "a second document starts here; give it a file of its own in conf.d")

    def _read_root(self) -> None:
        event = self._next()
        self._refuse_extras(event)
        if isinstance(event, yaml.MappingStartEvent):
            self._read_mapping(())
        elif not (isinstance(event, yaml.ScalarEvent) and _is_nothing(event)):
            self._refuse(event, "the file must consist of sections (sampling:) with keys (interval: 5s)")
            self._skip(event)

    def _read_mapping(self, path: Path) -> None:
        lines: dict[str, int] = {}
        while not self._is_next(yaml.MappingEndEvent):
            key = self._next()
            self._refuse_extras(key)
            if not isinstance(key, yaml.ScalarEvent):
                self._refuse(key, "a key must be a single word")
                self._skip(key)
                self._skip(self._next())
                continue
            name, line = key.value, _line_of(key)
            if name in lines:
                self._refuse(key, f"{quoted(name)} is set twice; the first time on line {lines[name]}")
            lines.setdefault(name, line)
            self._read_value((*path, name), line)
        self._next()

    def _read_list(self, path: Path) -> None:
        length = 0
        while not self._is_next(yaml.SequenceEndEvent):
            if self._read_value((*path, length), None):
                length += 1
        self._next()

    def _read_value(self, path: Path, line: int | None) -> bool:
        """Reads one value; returns whether there is one (an alias is refused, and stands for nothing)."""
        if len(path) > _MAX_DEPTH:
            raise _TooDeepError
        event = self._next()
        line = line or _line_of(event)
        self._refuse_extras(event)
        if isinstance(event, yaml.ScalarEvent):
            value = None if _is_nothing(event) else event.value
            self.assignments.append(Assignment(path, value, line, _last_line_of(event)))
        elif isinstance(event, yaml.MappingStartEvent):
            self.assignments.append(Assignment(path, {}, line, line))
            self._read_mapping(path)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.assignments.append(Assignment(path, [], line, line))
            self._read_list(path)
        return not isinstance(event, yaml.AliasEvent)

    def _refuse_extras(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, f"the alias *{event.anchor} is not read; write the value out")
            return
        if event.anchor is not None:
            self._refuse(event, f"the anchor &{event.anchor} is not read; remove it")
        if event.tag is not None:
            self._refuse(event, f"the tag {event.tag.replace('tag:yaml.org,2002:', '!!')} is not read; remove it")

    def _refuse(self, event: Any, text: str) -> None:
        self.problems.append((_line_of(event), printable(text)))

    def _skip(self, event: yaml.Event) -> None:
        """Reads over the rest of what the event opens."""
        depth = 0
        while True:
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth == 0:
                return
            if depth > _MAX_DEPTH:
                raise _TooDeepError
            event = self._next()

    def _next(self) -> Any:
        return self._parser.get_event()

    def _is_next(self, kind: type[yaml.Event]) -> bool:
        return bool(self._parser.check_event(kind))

    def _line(self) -> int:
        return cast("int", self._parser.line) + 1


def _line_of(event: Any) -> int:
    return cast("int", event.start_mark.line) + 1


def _last_line_of(event: Any) -> int:
    return cast("int", event.end_mark.line) + 1


def _is_nothing(event: Any) -> bool:
    return event.implicit[0] and event.style is None and event.value in {"", "~", "null", "Null", "NULL"}


# What the parser's words mean for who wrote the file: (part of its sentence, ours, whether the mistake lies where the
# construct began and not where the parser noticed it).
_SYNTAX = (
    (r"'\t' that cannot start", "a tab; YAML takes only spaces here", False),
    ("that cannot start any token", "a value that begins with a special character needs quotes", False),
    ("mapping values are not allowed", 'a ":" that fits nowhere; check the indentation, or quote the value', False),
    ("expected <block end>", "this does not fit the lines above; check the indentation, or quote the value", False),
    ("found '<stream end>'", "the file ends inside of a [ or {", False),
    ("expected the node content", "a value is missing here, or one that begins with [ or { needs quotes", False),
    ("could not find expected ':'", 'a key without ":" after it', True),
    ("unexpected end of stream", "a quote that is never closed", True),
    ("unexpected document separator", "a quote that is never closed", True),
    ("expected ',' or ']'", "a [ that is never closed", True),
    ("expected ',' or '}'", "a { that is never closed", True),
    ("unknown escape character", r"an unknown \ escape; put the value in single quotes", False),
)


def _syntax_problem(error: yaml.MarkedYAMLError) -> tuple[int, str]:
    problem = error.problem or ""
    known = (row for row in _SYNTAX if row[0] in problem)
    _, sentence, lies_where_it_began = next(known, ("", printable(f"not YAML: {problem}"), False))
    marks = (
        (error.context_mark, error.problem_mark) if lies_where_it_began else (error.problem_mark, error.context_mark)
    )
    return next((mark.line + 1 for mark in marks if mark is not None), 1), sentence
