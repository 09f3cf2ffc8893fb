"""The few errors that cross a room's wall.

RocmwatchError
+-- ConfigError      the configuration has problems; all of them, each with file and line
+-- LauncherLost     the privileged launcher is gone; the service has to start anew
+-- DaemonUnreachable  no daemon answered at the address that was asked
+-- ParseError       a kernel file's bytes are not in its format: the one error that parsers raise
"""


class RocmwatchError(Exception):
    """Something that a person can act on: its text is one line that says what, where and what to do."""


class ConfigError(RocmwatchError):
    """The configuration has problems.

    Attributes:
        problems: One line each, `file:line: what is wrong`, in file order.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class LauncherLost(RocmwatchError):
    """The launcher ended. Its capabilities are gone with it: only a new start of the service brings them back."""


class DaemonUnreachable(RocmwatchError):
    """No rocmwatch daemon answered."""


class ParseError(RocmwatchError):
    """A kernel file holds something else than its format allows.

    Attributes:
        errno: A symbolic name, so that it counts beside the kernel's own errors: `ENODATA` (empty), `EBADMSG` (not in
            the format, or shorter than it says), `ERANGE` (a number that cannot be true).
    """

    def __init__(self, errno: str, text: str) -> None:
        super().__init__(f"{errno}: {text}")
        self.errno = errno
