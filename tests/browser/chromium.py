"""A real browser, driven over its debugging pipe: no driver program, no port, no package.

Chromium reads commands from descriptor 3 and writes answers and events to descriptor 4, JSON with a NUL behind each.
Source: the DevTools protocol, `--remote-debugging-pipe`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_HIGH = 20
ANSWER_SECONDS = 60.0  # it is a large program on a small machine
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it runs as root in CI
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def program() -> str | None:
    """Where the browser is; `None` when there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def _high(pair: tuple[int, int]) -> tuple[int, int]:
    """The same descriptors under numbers that nobody else wants."""
    first, second = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _HIGH) for one in pair)
    for one in pair:
        os.close(one)
    return first, second


class Browser:
    """One running browser."""

    def __init__(self, folder: Path) -> None:
        path = program()
        assert path is not None
        commands_read, self._commands = _high(os.pipe())
        self._answers, answers_write = _high(os.pipe())
        # A shell puts them where the browser wants them: in this process, 3 and 4 may be anything.
        wire = f'exec 3<&{commands_read} 4>&{answers_write} {commands_read}<&- {answers_write}>&-; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", wire, "browser", path, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands_read, answers_write),
            start_new_session=True,
        )
        os.close(commands_read)
        os.close(answers_write)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """Ends the browser and all its processes."""
        os.close(self._commands)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._answers)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """What the browser answers."""
        number = next(self._numbers)
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        for message in self._messages(ANSWER_SECONDS):
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)
        raise AssertionError(f"{method}: no answer")

    def wait_for(self, method: str, session: str) -> dict[str, Any]:
        """The next event of a kind, one that came already included."""
        for at, event in enumerate(self.events):
            if event.get("method") == method and event.get("sessionId") == session:
                return self.events.pop(at)
        for message in self._messages(ANSWER_SECONDS):
            if message.get("method") == method and message.get("sessionId") == session:
                return message
            self.events.append(message)
        raise AssertionError(f"{method}: never happened")

    def _messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + seconds
        while True:
            head, nul, rest = self._buffer.partition(b"\0")
            if nul:
                self._buffer = rest
                yield json.loads(head)
                continue
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser ended"
            self._buffer += data


class Page:
    """One tab."""

    def __init__(self, browser: Browser, width: int = 1280, *, dark: bool = False, script: bool = True) -> None:
        self._browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setScriptExecutionDisabled", value=not script)
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def close(self) -> None:
        """Closes the tab."""
        self._browser.call("Target.closeTarget", targetId=self.target)
        self._browser.events.clear()

    def open(self, url: str) -> None:
        """Goes there, and waits until it is loaded."""
        self._call("Page.navigate", url=url)
        self.loaded()

    def loaded(self) -> None:
        """Waits for the next load to be over."""
        self._browser.wait_for("Page.loadEventFired", self._session)

    def run(self, expression: str) -> Any:
        """What a JavaScript expression comes to; it is the debugger's, no policy of the page holds for it."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key, down and up."""
        codes = {"Tab": 9, "Enter": 13}
        typed = {"text": "\r"} if key == "Enter" else {}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self._call("Input.dispatchKeyEvent", type="keyDown", **common, **typed)
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self) -> bytes:
        """A picture of all of it, PNG."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    @property
    def complaints(self) -> list[str]:
        """What the browser's console says so far: errors, violations of the policy."""
        self.run("0")
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            elif event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(str(event["params"]))
            elif event["method"] == "Network.loadingFailed":
                found.append(event["params"]["errorText"])
        return found

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)
