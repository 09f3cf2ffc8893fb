"""The configuration: texts by file name -> Config, or every problem at once as `file:line: what is wrong`.

    document     one YAML text -> assignments with their lines
    tree         several files laid over each other
    quantities   how durations, switches and addresses are written
    settings     the options: names, defaults, limits, meaning
    problems     what does not fit -> sentences for people

Nothing here reads a file: that is `observe.config_files`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from rocmwatch.config.document import MAX_CHARACTERS, printable, read_document
from rocmwatch.config.problems import Problem, problems_of
from rocmwatch.config.quantities import Address
from rocmwatch.config.settings import (
    SHIPPED_WATCHDOG_SECONDS,
    Config,
    Exporter,
    Log,
    Sampling,
    json_schema,
    problems_with_watchdog,
)
from rocmwatch.config.tree import Place, Tree, merge
from rocmwatch.errors import ConfigError

__all__ = [
    "MAX_CHARACTERS",
    "SHIPPED_WATCHDOG_SECONDS",
    "Address",
    "Config",
    "Exporter",
    "Log",
    "Sampling",
    "json_schema",
    "parse",
    "printable",
    "problems_with_watchdog",
]


def parse(texts: Mapping[str, str]) -> Config:
    """Reads a configuration.

    Args:
        texts: YAML by file name, in the order in which they override each other: mappings merge, the rest is replaced.

    Raises:
        ConfigError: With every problem of every file, in file order.
    """
    documents = [(order, file, read_document(text)) for order, (file, text) in enumerate(texts.items())]
    problems = [
        Problem(Place(order, file, line), text)
        for order, file, document in documents
        for line, text in document.problems
    ]
    is_complete = all(document.is_complete for _, _, document in documents)
    for document in documents:  # one by one, too: a mistake stays one when a later file happens to cover it
        problems += [problem for problem in _validate(merge([document]))[1] if not problem.is_of_pair]
    config, merged_problems = _validate(merge(documents))
    problems += [problem for problem in merged_problems if is_complete or not problem.is_of_pair]
    if config is None or problems:
        raise ConfigError(tuple(dict.fromkeys(problem.line() for problem in sorted(problems))))
    return config


def _validate(tree: Tree) -> tuple[Config | None, list[Problem]]:
    try:
        return Config.model_validate(tree.values), []
    except ValidationError as error:
        return None, problems_of(error, tree)
