"""The wiring of `rocmwatch run`: the jobs, the signals, reload, and what systemd is told. No thought, no reading.

The main thread waits for signals and does nothing else, so that it can always end. One thread ticks (APScheduler), one
feeds systemd's watchdog as long as ticks are fresh, the web server has its own, and so has a reload. A tick is one
snapshot; everybody else reads what was published last.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from datetime import timezone

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from rocmwatch.config import Config, Exporter, problems_with_watchdog
from rocmwatch.errors import ConfigError, LauncherLost, RocmwatchError
from rocmwatch.judge.edges import Damper, edges
from rocmwatch.model import GpuState, Snapshot, View
from rocmwatch.observe.config_files import load
from rocmwatch.observe.sampler import Pace
from rocmwatch.picture import Publisher, Studio
from rocmwatch.serve import log
from rocmwatch.serve.notify import Supervisor
from rocmwatch.serve.web import WebServer

EXIT_FAILED = 1
EXIT_CONFIG = 78  # EX_CONFIG: the unit does not restart on it
CLOCK_LOOK_SECONDS = 5.0
CLOCK_STEP_SECONDS = 2.0
STATUS_SECONDS = 10.0
FLAP_SECONDS = 600.0  # a read that fails again and again is told so often
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TICK, _HEARTBEAT = "tick", "heartbeat"


def pace_of(config: Config) -> Pace:
    """What the configuration says of how often to read."""
    sampling = config.sampling
    return Pace(
        memory=sampling.interval_seconds,
        sensors=sampling.sensors_seconds,
        fragmentation=sampling.fragmentation_seconds,
        deadline=sampling.deadline_seconds,
        ras=sampling.ras_seconds,
    )


class Daemon:
    """One run of the service."""

    def __init__(self, config_path: str, studio: Studio) -> None:
        self._config_path = config_path
        self._studio = studio
        self._clock = studio.clock
        self._supervisor = Supervisor()
        self._beat_seconds = self._supervisor.watchdog_seconds / 3 if self._supervisor.watchdog_seconds else None
        self._publisher = Publisher()
        self._publishing = threading.Lock()
        self._reloading = threading.Lock()
        self._reload_wanted = threading.Event()
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc,
            executors={"default": ThreadPoolExecutor(1), _HEARTBEAT: ThreadPoolExecutor(1)},
            job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
        )
        self._log = log.get_logger()
        self._ready = False
        self._ticked_at = self._clock.monotonic()
        self._tick_error = ""
        self._damper = Damper(FLAP_SECONDS)
        self._failure = ""
        self._config: Config
        self._exporter: Exporter  # as it was at the start: it stays so until the end
        self._config_loaded_at = 0.0
        self._reload_successful = True

    def run(self) -> int:
        """Until a signal ends it. Returns the exit status."""
        try:
            config = self._load()
        except ConfigError as error:
            log.configure("info", "auto")
            self._log_problems(error)
            return EXIT_CONFIG
        log.configure(config.log.level, config.log.format)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # the launcher, which must not inherit this, is running
        self._config, self._config_loaded_at = config, self._clock.unix()
        self._set_pace(config)
        self._exporter = config.exporter
        listen = config.exporter.listen
        reload = self.reload if config.exporter.reload else None
        web = WebServer(listen.host, listen.port, self._publisher.current, self._clock.unix, reload)
        try:
            web.start()
        except RocmwatchError as error:
            self._log.error("service.failed", reason=str(error))
            return EXIT_FAILED
        self._log.info("service.listening", address=listen.host or "*", port=web.port, root=self._studio.root or None)
        threading.Thread(target=self._reload_on_demand, name="reload", daemon=True).start()
        self._start_jobs()
        self._obey_signals()
        self._supervisor.stopping()
        web.stop()
        if self._failure:
            self._log.error("service.failed", reason=self._failure)
            return EXIT_FAILED
        self._log.info("service.stopped")
        return 0

    # The configuration

    def reload(self) -> bool:
        """Reads the configuration anew; a bad one changes nothing but a metric. Returns whether it was accepted."""
        with self._reloading:
            if self._ready:
                self._supervisor.reloading()
            try:
                config = self._load()
            except ConfigError as error:
                self._log_problems(error, hint="the last good configuration stays in force")
                self._reload_successful = False
            else:
                self._put_in_force(config)
                self._reload_successful = True
            with self._publishing:
                view = self._publisher.current()
                if view is not None:
                    self._publish(view)
            if self._ready:
                self._supervisor.ready(self._status())
            return self._reload_successful

    def _reload_on_demand(self) -> None:
        while self._reload_wanted.wait():
            self._reload_wanted.clear()
            self.reload()

    def _load(self) -> Config:
        config = load(self._config_path)
        if self._supervisor.watchdog_seconds:
            problems = problems_with_watchdog(config, self._supervisor.watchdog_seconds)
            if problems:
                raise ConfigError(tuple(f"{self._config_path}: {problem}" for problem in problems))
        return config

    def _log_problems(self, error: ConfigError, **facts: str) -> None:
        for problem in error.problems:
            self._log.error("config.refused", problem=problem, **facts)

    def _put_in_force(self, config: Config) -> None:
        before, self._config, self._config_loaded_at = self._config, config, self._clock.unix()
        self._set_pace(config)
        if config.sampling.interval_seconds != before.sampling.interval_seconds:  # else many reloads starve the ticks
            self._reschedule(_TICK)
        log.configure(config.log.level, config.log.format)
        self._log.info("config.reloaded", path=self._config_path)
        for key in ("listen", "reload"):
            if getattr(config.exporter, key) != getattr(self._exporter, key):
                self._log.warning("config.needs_restart", key=f"exporter.{key}")

    def _set_pace(self, config: Config) -> None:
        self._studio.sampler.pace = pace_of(config)
        self._studio.backend.mode = config.sampling.backend
        if self._studio.census is not None:
            self._studio.census.seconds = config.sampling.processes_seconds
            self._studio.census.deadline_seconds = config.sampling.deadline_seconds

    # Jobs

    def _start_jobs(self) -> None:
        for job, name, executor in ((self._tick_job, _TICK, "default"), (self._heartbeat, _HEARTBEAT, _HEARTBEAT)):
            self._scheduler.add_job(job, executor=executor)  # at once
            self._scheduler.add_job(job, "interval", seconds=self._every(name), id=name, executor=executor)
        self._scheduler.start()

    def _every(self, name: str) -> float:
        """Seconds between two runs of a job."""
        return self._config.sampling.interval_seconds if name == _TICK else self._beat_seconds or STATUS_SECONDS

    def _reschedule(self, name: str) -> None:
        """Counts the job's time anew, from now."""
        self._scheduler.reschedule_job(name, trigger="interval", seconds=self._every(name))

    def _tick_job(self) -> None:
        try:
            self._tick()
        except LauncherLost as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001  # the one place that keeps a bug in a tick from ending all ticks
            if repr(error) != self._tick_error:
                self._log.error("tick.failed", error=repr(error), exc_info=True)
            self._tick_error = repr(error)
        else:
            if self._tick_error:
                self._log.info("tick.recovered")
            self._tick_error = ""

    def _tick(self) -> None:
        before = self._publisher.current()
        view = self._studio.take(config_loaded_at=self._config_loaded_at)
        with self._publishing:
            self._publish(view)
        self._ticked_at = self._clock.monotonic()
        for edge in edges(before.snapshot if before else None, view.snapshot):
            if self._damper.passes(edge, self._ticked_at):
                getattr(self._log, edge.level)(edge.event, **edge.facts)
        if not self._ready:
            self._ready = True
            self._supervisor.ready(self._status())
            self._log.info("service.started", gpus=len(view.snapshot.gpus))

    def _publish(self, view: View) -> None:
        """With what is true of the configuration now: a reload may have been quicker than the tick."""
        at, successful = self._config_loaded_at, self._reload_successful
        self._publisher.publish(replace(view, config_loaded_at=at, config_last_reload_successful=successful))

    def _heartbeat(self) -> None:
        if self._clock.monotonic() - self._ticked_at < self._patience_seconds():
            self._supervisor.alive(self._status())
        else:
            self._supervisor.status(self._status())  # no tick came through: systemd may do what it does

    def _patience_seconds(self) -> float:
        """How old the last tick may be: three ticks, or one that meets a GPU that hangs after the other."""
        sampling = self._config.sampling
        view = self._publisher.current()
        subjects = 1 + (len(view.snapshot.gpus) if view else 0)
        slowest = sampling.interval_seconds + 2 * subjects * sampling.deadline_seconds
        return max(self._supervisor.watchdog_seconds or 0, 3 * sampling.interval_seconds, slowest)

    def _status(self) -> str:
        view = self._publisher.current()
        age = self._clock.monotonic() - self._ticked_at
        return f"{gpus_in_words(view.snapshot)}; last tick {age:.1f} s ago" if view else "the first tick is under way"

    # Signals

    def _obey_signals(self) -> None:
        look_seconds = min(CLOCK_LOOK_SECONDS, self._every(_HEARTBEAT) / 2)
        offset = self._clock.unix() - self._clock.monotonic()
        while True:
            received = signal.sigtimedwait(_SIGNALS, look_seconds)
            number = received.si_signo if received else None  # any number, when the wait was stopped past its time
            if number in (signal.SIGTERM, signal.SIGINT):
                return
            if number == signal.SIGHUP:
                self._reload_wanted.set()
            now = self._clock.unix() - self._clock.monotonic()
            if abs(now - offset) > CLOCK_STEP_SECONDS:  # the scheduler goes by the wall clock, and would wait for it
                self._log.warning("clock.stepped", seconds=round(now - offset, 1))
                self._reschedule(_TICK)
                self._reschedule(_HEARTBEAT)
                offset = now

    def _fail(self, reason: str) -> None:
        self._failure = reason
        os.kill(os.getpid(), signal.SIGTERM)


def gpus_in_words(snapshot: Snapshot) -> str:
    """`8 GPUs`, or `8 GPUs (1 stalled, 1 lost)`."""
    count = f"{len(snapshot.gpus)} GPU{'' if len(snapshot.gpus) == 1 else 's'}"
    states = [reading.state for reading in snapshot.gpus]
    odd = [f"{states.count(state)} {state.value}" for state in GpuState if state is not GpuState.ACTIVE]
    odd = [text for text in odd if not text.startswith("0 ")]
    return f"{count} ({', '.join(odd)})" if odd else count
