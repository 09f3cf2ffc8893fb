"""What a client asks for: the format by Accept, the coding by Accept-Encoding, with their weights (RFC 9110)."""

from __future__ import annotations

from typing import NamedTuple


class _Choice(NamedTuple):
    value: str
    parameters: dict[str, str]
    weight: float


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0  # false for NaN too


def _choices(header: str) -> list[_Choice]:
    choices = []
    for item in header.split(","):
        value, *rest = (part.strip() for part in item.split(";"))
        if not value:
            continue
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip().lower(): text.strip().strip('"') for name, _, text in pairs}
        choices.append(_Choice(value.lower(), parameters, _weight(parameters.pop("q", "1"))))
    return choices


def wants_openmetrics(accept: str) -> bool:
    """Whether the answer should be OpenMetrics 1.0.0 and not Prometheus' text format 0.0.4.

    Only who names OpenMetrics gets it, in the version that is spoken here, and only where the client does not like
    plain text better. Everybody else gets text: an answer in an unexpected format is more use than a 406.
    """
    openmetrics = text = 0.0
    for choice in _choices(accept):
        if choice.value == "application/openmetrics-text" and choice.parameters.get("version", "1.0.0") == "1.0.0":
            openmetrics = max(openmetrics, choice.weight)
        elif choice.value == "text/plain":
            text = max(text, choice.weight)
    return openmetrics > 0.0 and openmetrics >= text


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the client takes gzip: named, or by `*`, and not with weight 0."""
    weights = {choice.value: choice.weight for choice in _choices(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0.0
