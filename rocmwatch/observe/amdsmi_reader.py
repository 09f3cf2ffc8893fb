"""What the amdsmi reader does: starts the library, once, and asks it about GPUs.

It ends with its process: a library that is started anew after a failure leaks, so another process takes over.
"""

import os
from typing import Any

from rocmwatch.observe.amdsmi_frame import LIBRARY, AmdsmiFrame, StartFrame
from rocmwatch.observe.amdsmi_library import NOT_SUPPORTED, Library, Unusable, prepare, start
from rocmwatch.observe.amdsmi_values import Question
from rocmwatch.observe.wire import SLOW, Order

_NOTHING = frozenset({NOT_SUPPORTED, 3, 40, 43})  # not supported, not implemented, no data, a table it does not know


class AmdsmiReader:
    """Answers the orders that concern amdsmi."""

    def __init__(self, root: str) -> None:
        """Does nothing yet.

        Args:
            root: Of no use: the library reads the machine's own files.
        """
        self._library: Library | None = None
        self._silent: dict[str, set[Question]] = {}  # PCI address -> what this GPU has not

    def answer(self, order: Order) -> tuple[object, ...]:
        """The frame that an order asks for."""
        return self._start() if order.subject == LIBRARY else self._gpu(order)

    def _start(self) -> StartFrame:
        try:
            prepare()
            self._library = start(os.environ)
        except Unusable as reason:
            return StartFrame(str(reason), reason.is_absent)
        except Exception as error:  # noqa: BLE001  # the library's, or ours: in any case it is not usable
            return StartFrame(f"its start failed: {type(error).__name__}: {error}"[:300])
        return StartFrame("")

    def _gpu(self, order: Order) -> AmdsmiFrame:
        handle = self._library.handles.get(order.subject) if self._library else None
        if self._library is None or handle is None:
            return AmdsmiFrame()
        silent = self._silent.setdefault(order.subject, set())
        if order.what & SLOW:
            silent.clear()  # nothing is decided for ever
        values: list[tuple[str, float]] = []
        errors: list[tuple[str, str, str]] = []
        for question, call, arguments in self._library.questions:
            if not order.what & question.what or question in silent:
                continue
            try:
                answer = call(handle, *arguments)
            except Exception as error:  # noqa: BLE001  # its errors derive from nothing narrower
                code = _code(error)
                if code == NOT_SUPPORTED:
                    silent.add(question)
                elif code not in _NOTHING:
                    errors.extend((name, f"AMDSMI_{code}", question.call) for name, _ in question.answers)
                continue
            numbers = ((name, convert(answer)) for name, convert in question.answers)
            values.extend((name, number) for name, number in numbers if number is not None)
        return AmdsmiFrame(tuple(values), tuple(errors))


def _code(error: Exception) -> Any:
    """The library's error number; of anything else its class."""
    code = getattr(error, "err_code", None)
    return code if isinstance(code, int) else type(error).__name__
