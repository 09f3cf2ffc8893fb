"""Reads the configuration's files: the main one, then `conf.d/*.yaml` beside it in the order of their names.

Not for the readers: they take what they need from the main process.
"""

from __future__ import annotations

import os
import stat

from rocmwatch.config import MAX_CHARACTERS, Config, parse, printable
from rocmwatch.errors import ConfigError

DEFAULT_PATH = "/etc/rocmwatch/rocmwatch.yaml"


def load(path: str = DEFAULT_PATH) -> Config:
    """Reads a configuration.

    Args:
        path: The main file. Only the default one may be missing: then the defaults apply, and its conf.d.

    Raises:
        ConfigError: With every problem of every file.
    """
    problems: list[str] = []
    files = (path, *_drop_ins(path, problems))
    texts = {file: text for file in files if (text := _read(file, problems)) is not None}
    try:
        config = parse(texts)
    except ConfigError as error:
        raise ConfigError((*problems, *error.problems)) from None
    if problems:
        raise ConfigError(tuple(problems))
    return config


def _drop_ins(path: str, problems: list[str]) -> list[str]:
    folder = os.path.join(os.path.dirname(path), "conf.d")
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(f"{printable(folder)}: cannot be read: {error.strerror}")
        return []
    problems += [
        f"{printable(os.path.join(folder, name))}: is not read; a file here has to end in .yaml"
        for name in names
        if name.endswith(".yml")
    ]
    return [os.path.join(folder, name) for name in names if name.endswith(".yaml")]


def _read(file: str, problems: list[str]) -> str | None:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as stream:  # no wait at a FIFO
            if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
                problems.append(f"{printable(file)}: a pipe, and no file")
                return None
            raw = stream.read(MAX_CHARACTERS + 1)  # no more than it takes to see that it is too much
        if len(raw) <= MAX_CHARACTERS:
            return raw.decode()
        problems.append(f"{printable(file)}:1: larger than 1 MiB, which no configuration is")
    except FileNotFoundError:
        if file != DEFAULT_PATH:
            problems.append(f"{printable(file)}: no such file")
    except OSError as error:
        problems.append(f"{printable(file)}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(f"{printable(file)}:{line}: not UTF-8 at byte {error.start + 1}")
    return None
