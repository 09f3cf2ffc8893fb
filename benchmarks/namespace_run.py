"""Runs a command again and again with a tree in the place of /sys and /dev, and says what each run cost.

Started by `rows/peers_smi.py` in a mount namespace of its own: SYS DEV COUNT COMMAND... Prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time


def run(command: list[str]) -> dict[str, object]:
    """One run: CPU and wall seconds, exit code, output."""
    with tempfile.TemporaryFile("w+") as output:
        before = time.monotonic()
        pid = os.posix_spawn(
            command[0],
            command,
            {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1), (os.POSIX_SPAWN_DUP2, output.fileno(), 2)],
        )
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - before
        output.seek(0)
        return {
            "cpu": usage.ru_utime + usage.ru_stime,
            "wall": wall,
            "code": os.waitstatus_to_exitcode(status),
            "output": output.read(),
        }


def main() -> None:
    sys_tree, dev_tree, count, *command = sys.argv[1:]
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for source, target in ((sys_tree, "/sys"), (dev_tree, "/dev")):
        subprocess.run(["mount", "--bind", source, target], check=True)
    print(json.dumps([run(command) for _ in range(int(count))]))


if __name__ == "__main__":
    main()
