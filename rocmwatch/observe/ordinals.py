"""The numbers of the GPUs: `gpu="3"`, given in PCI order at first sight and kept for the boot.

A GPU that falls off the bus keeps its number, and nobody else gets it, so that a dashboard's line never changes its
GPU. The daemon may start many times in one boot, hence a small file in its runtime folder; it counts only for the
boot that wrote it.
"""

import json
import os
from collections.abc import Iterable, Mapping

from rocmwatch.observe.files import read_file

BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Ordinals:
    """PCI address -> ordinal."""

    def __init__(self, path: str | None = None, boot_id: str = "") -> None:
        self._path = path
        self._boot_id = boot_id
        self._numbers: dict[str, int] = dict(self._load()) if path else {}

    def __getitem__(self, pci: str) -> int:
        return self._numbers[pci]

    def add(self, addresses: Iterable[str]) -> None:
        """Gives a number to each address that has none yet."""
        fresh = sorted(set(addresses) - self._numbers.keys())
        for pci in fresh:
            self._numbers[pci] = max(self._numbers.values(), default=-1) + 1
        if fresh and self._path:
            self._save(self._path)

    def _load(self) -> Mapping[str, int]:
        try:
            document = json.loads(read_file(self._path or ""))
            numbers: dict[str, int] = dict(document["gpus"])
            right = document["boot_id"] == self._boot_id and sorted(numbers.values()) == list(range(len(numbers)))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}  # first start in this boot, or nothing that helps
        return numbers if right else {}

    def _save(self, path: str) -> None:
        document = json.dumps({"boot_id": self._boot_id, "gpus": self._numbers})
        try:
            with open(f"{path}.new", "w", encoding="ascii") as file:
                file.write(document)
            os.replace(f"{path}.new", path)
        except OSError:
            self._path = None  # no folder to keep it in: the numbers hold as long as this process does


def boot_id(root: str) -> str:
    """The kernel's name for this boot; empty when it has none to give."""
    try:
        return read_file(root + BOOT_ID).decode("ascii", "replace").strip()
    except OSError:
        return ""
