"""The options: their names, defaults, limits, and what they mean. A later section is added here and nowhere else."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from rocmwatch.config.quantities import Address, Duration, Switch, format_duration

# The annotations below are read at run time: pydantic builds the validators from them.


class PairError(ValueError):
    """Options that are fine alone and impossible together.

    Attributes:
        problems: The option to blame, the one it does not go with, and a sentence that goes on after the first's name.
    """

    def __init__(self, problems: list[tuple[str, str, str]]) -> None:
        super().__init__(str(problems))
        self.problems = problems


class Section(BaseModel):
    """A section of the file: frozen, and without any key that is not listed."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"type": ["object", "null"]})

    @model_validator(mode="before")
    @classmethod
    def _empty_is_all_defaults(cls, value: Any) -> Any:
        return {} if value is None else value


class Sampling(Section):
    """How often, and how patiently, the driver's files are read."""

    backend: Literal["sysfs", "amdsmi", "auto"] = Field(
        default="auto",
        description=(
            "What the GPUs' memory, temperatures, clocks, power and load are read from. sysfs: the driver's files. "
            "amdsmi: ROCm's library, laid over the files, which stand in where it fails. auto: the files, and amdsmi "
            "for a GPU whose VRAM or temperatures have none. amdsmi needs the drop-in amdsmi.conf of the unit."
        ),
    )
    interval_seconds: Annotated[
        float,
        Duration("100ms", "1h", "a faster series costs the node more than it shows"),
    ] = Field(
        default="5s",
        validate_default=True,
        alias="interval",
        description=(
            "How often the memory files (VRAM, GTT) are read. At least 100ms, and at most a third of the unit's "
            "WatchdogSec."
        ),
    )
    sensors_seconds: Annotated[
        float,
        Duration("1s", "1h", "each read asks the GPU's own management controller (SMU), which has other work"),
    ] = Field(
        default_factory=lambda values: max(5.0, values.get("interval_seconds", 0.0)),
        alias="sensors",
        description=(
            "How often temperatures, clocks, power and load are read. At least 1s, and not below interval. "
            "Default: 5s, or the interval if that is longer."
        ),
        json_schema_extra={"default": "5s"},
    )
    fragmentation_seconds: Annotated[
        float,
        Duration("10s", "1d", "the driver locks its VRAM allocator while it writes the table"),
    ] = Field(
        default_factory=lambda values: max(60.0, values.get("interval_seconds", 0.0)),
        alias="fragmentation",
        description=(
            "How often the table of free VRAM blocks (debugfs amdgpu_vram_mm) is read. At least 10s, and not below "
            "interval. Drivers before Linux 7.3 walk every free block for it: theirs is never read more often than "
            "once a minute, whatever is set here. Default: 1min, or the interval if that is longer."
        ),
        json_schema_extra={"default": "1min"},
    )
    ras_seconds: Annotated[
        float,
        Duration("1min", "1d", "each read makes the driver ask the hardware of every block for its errors"),
    ] = Field(
        default_factory=lambda values: max(300.0, values.get("interval_seconds", 0.0)),
        alias="ras",
        description=(
            "How often the counts of hardware errors (RAS: ECC and its kin) are read, of GPUs that are awake. At least "
            "1min, and not below interval. Default: 5min, or the interval if that is longer."
        ),
        json_schema_extra={"default": "5min"},
    )
    processes_seconds: Annotated[
        float,
        Duration("2s", "1h", "each look goes through the open files of every process that uses a GPU"),
    ] = Field(
        default_factory=lambda values: max(10.0, values.get("interval_seconds", 0.0)),
        alias="processes",
        description=(
            "How often it is looked at who has something of the GPUs. At least 2s, and not below interval. "
            "Default: 10s, or the interval if that is longer."
        ),
        json_schema_extra={"default": "10s"},
    )
    deadline_seconds: Annotated[
        float,
        Duration("50ms", "10s", "a sound GPU can be that slow when it is busy"),
    ] = Field(
        default_factory=lambda values: min(1.0, values.get("interval_seconds", 1.0)),
        alias="deadline",
        description=(
            "How long one GPU's read may take before it counts as stalled and is left behind. 50ms to 10s, and not "
            "above interval. Default: 1s, or the interval if that is shorter."
        ),
        json_schema_extra={"default": "1s"},
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Sampling:
        interval = format_duration(self.interval_seconds)
        problems = [
            (key, "interval", f"{format_duration(seconds)} is below sampling.interval, {interval}, which sets the pace")
            for key, seconds in (
                ("sensors", self.sensors_seconds),
                ("fragmentation", self.fragmentation_seconds),
                ("ras", self.ras_seconds),
                ("processes", self.processes_seconds),
            )
            if seconds < self.interval_seconds
        ]
        if self.deadline_seconds > self.interval_seconds:
            deadline = format_duration(self.deadline_seconds)
            why = "a read that takes so long would run into the next one"
            problems.append(("deadline", "interval", f"{deadline} is above sampling.interval, {interval}: {why}"))
        if problems:
            raise PairError(problems)
        return self


class Exporter(Section):
    """The HTTP server of /metrics, the page and the API."""

    listen: Address = Field(
        default="127.0.0.1:19300",
        validate_default=True,
        description=(
            'Where it listens: "host:port", "[IPv6]:port", or ":port" for all addresses. It asks for no password and '
            "speaks no TLS: whoever reaches it can read it. A change takes effect at the next start."
        ),
    )
    reload: Switch = Field(
        default=False,
        description=(
            "Whether POST /-/reload makes the daemon read its configuration anew. SIGHUP always does. "
            "A change takes effect at the next start."
        ),
    )


class Log(Section):
    """The daemon's own log."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The least severe events that are logged.",
    )
    format: Literal["auto", "console", "json", "journal"] = Field(
        default="auto",
        description=(
            "console is for people, json for collectors, journal for systemd's journal; "
            "auto is journal when standard error goes there, else console."
        ),
    )


class Config(Section):
    """rocmwatch: /etc/rocmwatch/rocmwatch.yaml and conf.d/*.yaml beside it."""

    sampling: Sampling = Field(default_factory=Sampling, description=Sampling.__doc__)
    exporter: Exporter = Field(default_factory=Exporter, description=Exporter.__doc__)
    log: Log = Field(default_factory=Log, description=Log.__doc__)


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """The section's keys as they are written in the file."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def section_at(path: tuple[str | int, ...]) -> type[Section]:
    """The section that a path of keys leads to."""
    section: type[Section] = Config
    for step in path:
        section = cast("type[Section]", keys_of(section)[str(step)].annotation)
    return section


SHIPPED_WATCHDOG_SECONDS = 30.0  # WatchdogSec of systemd/rocmwatch.service


def problems_with_watchdog(config: Config, watchdog_seconds: float) -> tuple[str, ...]:
    """What of the configuration would make systemd's watchdog end a healthy service.

    Args:
        config: A valid configuration.
        watchdog_seconds: The unit's WatchdogSec ($WATCHDOG_USEC in seconds); 0 when it has none.
    """
    most_seconds = int(watchdog_seconds * 1000 / 3) / 1000
    if watchdog_seconds <= 0 or config.sampling.interval_seconds <= most_seconds:
        return ()
    return (
        f"sampling.interval {format_duration(config.sampling.interval_seconds)} is above a third of the unit's "
        f"WatchdogSec, {format_duration(watchdog_seconds)}: systemd would end a healthy service; "
        f"set it to {format_duration(most_seconds)} or less, or raise WatchdogSec",
    )


def json_schema() -> dict[str, Any]:
    """The configuration as a JSON Schema (2020-12), for editors that complete and check YAML."""
    schema = Config.model_json_schema(schema_generator=_WithoutFieldTitles)
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema}


class _WithoutFieldTitles(GenerateJsonSchema):
    """Pydantic's generator, without a title that only repeats each key."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False
