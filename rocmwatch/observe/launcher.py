"""A process of its own: main's first child. It holds the capabilities that reading needs, and forks the readers.

Main drops its capabilities, so it cannot start a reader that has them; this process can, and does nothing else.
Orders come as packets over the one socket pair it was born with (descriptor given as the first argument), and it ends
when main does:

    main -> launcher   "fork NAME ROOT" with three descriptors (requests, token, mailbox)     -> "pid N" or "failed
    ERRNO" "kill N"  a reader is not wanted any more; killed, never waited for launcher -> main   "dead N"  a killed
    reader is really gone (one that hangs in the driver may take for ever)

Started as `python -I -S launcher.py FD`: without site-packages, so that it and the readers that are forked off it,
sharing its memory, stay small.
"""

import os
import sys

if __name__ == "__main__":  # -I leaves the package's folder off the path, -S its site-packages
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import gc
import select
import signal
import socket

from rocmwatch.observe.reader import ROLES, serve_requests
from rocmwatch.observe.wire import PACKET_BYTES


def name_process(name: str) -> None:
    """Sets what ps shows (at most 15 bytes)."""
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


class Launcher:
    """The orders of main, carried out."""

    def __init__(self, main: socket.socket) -> None:
        self._main = main
        self._children: dict[int, bool] = {}  # pid -> whether it was killed

    def run(self) -> None:
        """Until main is gone; then no reader is wanted any more, the hanging ones least of all."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # ignored, the kernel would reap them itself
        signal.set_wakeup_fd(wake)  # gets a byte when a reader ends
        poll = select.poll()
        poll.register(self._main, select.POLLIN)
        poll.register(woken, select.POLLIN)
        try:
            while True:
                ready = [descriptor for descriptor, _ in poll.poll()]
                if woken in ready:
                    os.read(woken, 4096)
                if self._main.fileno() in ready and not self._obey():
                    break
                self._reap()
        except ConnectionError:
            pass  # main went while it was told something
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _obey(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._main, PACKET_BYTES, 3)
        if not data:
            return False
        verb, _, rest = os.fsdecode(data).partition(" ")
        if verb == "fork":
            name, _, root = rest.partition(" ")
            self._answer(self._fork(name, root, descriptors))
        elif verb == "kill":
            self._kill(int(rest))
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _fork(self, name: str, root: str, descriptors: list[int]) -> str:
        try:
            pid = os.fork()
        except OSError as error:
            return f"failed {error.errno}"
        if pid:
            self._children[pid] = False
            return f"pid {pid}"
        status = 1
        try:
            self._main.close()
            signal.set_wakeup_fd(-1)
            name_process(f"rw-{name}")
            requests, token, mailbox = descriptors
            serve_requests(ROLES[name](root), requests, token, mailbox)
            status = 0
        except BrokenPipeError:
            pass  # main is gone
        except Exception:  # noqa: BLE001  # whatever it is, it is a bug, and this is its way into the journal
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)  # nothing of the launcher's stack may run in the child

    def _kill(self, pid: int) -> None:
        if pid in self._children:  # not waited for yet, so the number is still this child's
            os.kill(pid, signal.SIGKILL)
            self._children[pid] = True
        else:
            self._answer(f"dead {pid}")

    def _reap(self) -> None:
        for pid, killed in list(self._children.items()):
            gone, _ = os.waitpid(pid, os.WNOHANG)
            if gone:
                del self._children[pid]
                if killed:
                    self._answer(f"dead {pid}")

    def _answer(self, text: str) -> None:
        self._main.send(text.encode())


def main() -> None:
    """The process: `launcher.py FD`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is main's to handle
    name_process("rw-launcher")
    orders = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # the readers share these pages as long as nobody touches them
    Launcher(orders).run()


if __name__ == "__main__":
    main()
