"""What does not fit -> one sentence for people: what is wrong, what is allowed, what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rocmwatch.config.document import Path, printable, quoted
from rocmwatch.config.quantities import kind_of, word
from rocmwatch.config.settings import Config, PairError, keys_of, section_at
from rocmwatch.config.tree import Place, Tree


class Problem(NamedTuple):
    """A sentence and where it belongs; sorts in the order of reading.

    Attributes:
        place: Of what is to blame.
        text: The sentence.
        is_of_pair: Whether it is about several options together, and so about the files together.
    """

    place: Place
    text: str
    is_of_pair: bool = False

    def line(self) -> str:
        """`file:line: text`."""
        return f"{printable(self.place.file)}:{self.place.line}: {self.text}"


def problems_of(error: ValidationError, tree: Tree) -> list[Problem]:
    """Every problem that the models found in the tree."""
    return [problem for details in error.errors(include_url=False) for problem in _problems_of_one(details, tree)]


def _problems_of_one(details: ErrorDetails, tree: Tree) -> Iterable[Problem]:
    path = details["loc"]
    error = details.get("ctx", {}).get("error")
    if isinstance(error, PairError):
        for key, other, text in error.problems:
            place, place_of_other = tree.place((*path, key)), tree.place((*path, other))
            where = "" if place.file == place_of_other.file else f" ({place_of_other.file}:{place_of_other.line})"
            yield Problem(place, f"{_dotted((*path, key))} {text}{printable(where)}", is_of_pair=True)
    elif details["type"] != _ECHO:
        yield Problem(tree.place(path), _SENTENCES.get(details["type"], _not_possible)(path, details))


def _unknown_key(path: Path, details: ErrorDetails) -> str:
    key = str(path[-1])
    known = list(keys_of(section_at(path[:-1])))
    where = f" in {_dotted(path[:-1])}" if path[:-1] else ""
    homes = [name for name in keys_of(Config) if key in keys_of(section_at((name,)))]
    home = f"it belongs in {' or '.join(homes)}" if homes else ""
    return f"unknown key {quoted(key)}{where}; {_did_you_mean(key, known) or home or 'known here: ' + ', '.join(known)}"


def _not_a_section(path: Path, details: ErrorDetails) -> str:
    return (
        f"{_dotted(path)} takes keys below it ({', '.join(keys_of(section_at(path)))}), not {kind_of(details['input'])}"
    )


def _not_a_choice(path: Path, details: ErrorDetails) -> str:
    choices = get_args(keys_of(section_at(path[:-1]))[str(path[-1])].annotation)
    try:
        value = word(details["input"], f"one of {', '.join(choices)}")
    except ValueError as error:
        return f"{_dotted(path)} {error}"
    sentence = f"{_dotted(path)} {quoted(value)} is none of {', '.join(choices)}"
    return "; ".join(filter(None, (sentence, _did_you_mean(value, choices))))


def _refused(path: Path, details: ErrorDetails) -> str:
    return f"{_dotted(path)} {details['ctx']['error']}"


def _not_possible(path: Path, details: ErrorDetails) -> str:
    return f"{_dotted(path)} cannot be {kind_of(details['input'])}"


_ECHO = "default_factory_not_called"  # the option that a default follows is refused itself
# By pydantic's word for it.
_SENTENCES: dict[str, Callable[[Path, ErrorDetails], str]] = {
    "extra_forbidden": _unknown_key,
    "literal_error": _not_a_choice,
    "model_type": _not_a_section,
    "value_error": _refused,
}


def _did_you_mean(text: str, known: Sequence[str]) -> str:
    return "".join(f'did you mean "{match}"?' for match in difflib.get_close_matches(text.lower(), known, n=1))


def _dotted(path: Path) -> str:
    return ".".join(str(step) for step in path)
