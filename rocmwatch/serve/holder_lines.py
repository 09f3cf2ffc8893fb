"""`rocmwatch/holders/1` for a terminal: each GPU's balance, then the holders below their owners, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rocmwatch.serve.wording import printable, size, span

if TYPE_CHECKING:
    from rich.text import Text

Document = Mapping[str, Any]
_BAR_CELLS = 20
_STYLES = {
    "owned": "green",
    "orphan": "bold red",
    "zombie_leader": "bold red",
    "zombie": "bold yellow",
    "stuck": "bold red",
    "contained": "yellow",
    "ghost": "yellow",
    "monitor": "dim",
    "foreign": "cyan",
}
_ATTRIBUTION = {
    "complete": "The holders explain the memory in use.",
    "partial": "The holders explain the memory in use only in part: nothing can be said of the rest.",
    "unknown": "Who holds the memory is not known.",
}


def holder_lines(document: Document, *, ascii_only: bool = False) -> list[Text]:
    """The lines.

    Args:
        document: The document.
        ascii_only: Whether the terminal knows no other characters.
    """
    ordinals = {gpu["pci"]: gpu["gpu"] for gpu in document["gpus"]}
    lines = [_gpu(gpu, ascii_only=ascii_only) for gpu in document["gpus"]]
    lines.append(_text(""))
    for (kind, name), members in groupby(sorted(document["holders"], key=_owner_key), key=_owner_key):
        lines += _owner(kind, name, list(members), ordinals)
    if not document["holders"]:
        lines.append(_text("No process holds memory of a GPU.", "dim"))
    lines += [_text(""), _text(_ATTRIBUTION[document["attribution"]], "dim")]
    lines += [_text(line, "bold yellow") for line in _findings(document, ordinals)]
    lines += [_text(f"note: {printable(note)}", "dim") for note in document["notes"]]
    return lines


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text  # noqa: PLC0415  # only who prints waits for it

    return Text(text, style=style)


def _gpu(gpu: Document, *, ascii_only: bool) -> Text:
    used, total = gpu["pool_used_bytes"], gpu["pool_total_bytes"]
    line = _text("")
    line.append(f"GPU {printable(gpu['gpu'])}", "bold")
    line.append(f"  {printable(gpu['pci'])}  ")
    if used is None or not total:
        line.append(f"{gpu['state']}, its memory is not known", "yellow")
        return line
    full = round(_BAR_CELLS * min(1.0, used / total))
    bar = "█" * full + "░" * (_BAR_CELLS - full)
    line.append(bar.translate(str.maketrans("█░", "#.")) if ascii_only else bar, "blue")
    line.append(f"  {size(used)} of {size(total)}")
    if gpu["held_bytes"] is not None:
        line.append(f"  held {size(gpu['held_bytes'])}", "dim")
    if gpu["idle_floor_bytes"] is not None:
        line.append(f"  driver {size(gpu['idle_floor_bytes'])}", "dim")
    if gpu["unowned_bytes"]:
        line.append(f"  unowned {size(gpu['unowned_bytes'])}", "bold yellow")
    return line


def _owner_key(holder: Document) -> tuple[str, str]:
    return holder["owner"]["kind"], holder["owner"]["name"] or ""


def _owner(kind: str, name: str, members: list[Document], ordinals: Mapping[str, str]) -> Iterator[Text]:
    """An owner, and its processes: those that are the parents of others first."""
    total = sum(held["bytes"] for member in members for held in member["vram"])
    line = _text("")
    line.append(printable(name) or "no owner", "bold")
    line.append(f"  {kind}, " if kind != "none" else "  ", "dim")
    line.append(size(total))
    yield line
    pids = {member["pid"] for member in members}
    for member in sorted(members, key=lambda one: (one["parent"] in pids, -_bytes(one), one["pid"])):
        yield from _holder(member, ordinals, inner=member["parent"] in pids)


def _bytes(holder: Document) -> int:
    return sum(held["bytes"] for held in holder["vram"])


def _holder(holder: Document, ordinals: Mapping[str, str], *, inner: bool) -> Iterator[Text]:
    indent = "    " if inner else "  "
    line = _text(f"{indent}{holder['pid']} {printable(holder['comm'] or '?')}  ")
    line.append(holder["class"], _STYLES.get(holder["class"], ""))
    places = ", ".join(
        f"GPU {ordinals.get(held['pci'], held['pci'])}{'' if held['partition'] is None else '.' + held['partition']} "
        f"{size(held['bytes'])}"
        for held in holder["vram"]
    )
    line.append(f"  {places or 'nothing'}")
    if holder["age_seconds"] is not None:
        line.append(f"  {span(holder['age_seconds'])} old", "dim")
    if holder["action"] not in ("none", "alert"):
        line.append(f"  -> {holder['action'].replace('_', ' ')}", "bold")
    yield line
    yield _text(f"{indent}  {printable(holder['reason'])}", "dim")


def _findings(document: Document, ordinals: Mapping[str, str]) -> Iterator[str]:
    if document["driver_leak"]:
        version = document["driver_version"] or "that comes with the kernel"
        yield (
            "All GPUs have about the same memory that nobody owns: the driver has lost it "
            f"(driver {printable(version)}), and no clean-up brings it back. A newer driver may; a reboot does."
        )
    elif document["unowned"]:
        told = ", ".join(
            f"GPU {ordinals.get(one['pci'], one['pci'])} {size(one['bytes'])}" for one in document["unowned"]
        )
        yield f"Nobody owns {told}: the driver has not given it back. A reboot does."
