"""The wiring of `rocmwatch run`: the jobs, the signals, reload, and what systemd is told. No thought, no reading.

The main thread waits for signals. One thread ticks (APScheduler), one feeds systemd's watchdog as long as ticks are
fresh, the web server has its own. A tick is one snapshot; everybody else reads what was published last.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from dataclasses import replace
from datetime import timezone
from typing import NamedTuple

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from rocmwatch.config import Config, problems_with_watchdog
from rocmwatch.errors import ConfigError, LauncherLost, RocmwatchError
from rocmwatch.judge.edges import edges
from rocmwatch.model import GpuState, Snapshot
from rocmwatch.observe.clock import SystemClock
from rocmwatch.observe.config_files import load
from rocmwatch.observe.sampler import Pace
from rocmwatch.picture import Publisher, Studio
from rocmwatch.serve import log
from rocmwatch.serve.notify import Supervisor
from rocmwatch.serve.web import WebServer

EXIT_FAILED = 1
EXIT_CONFIG = 78  # EX_CONFIG: the unit does not restart on it
CLOCK_LOOK_SECONDS = 5
CLOCK_STEP_SECONDS = 2.0
STATUS_SECONDS = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def pace_of(config: Config) -> Pace:
    """What the configuration says of how often to read."""
    sampling = config.sampling
    return Pace(
        memory=sampling.interval_seconds,
        sensors=sampling.sensors_seconds,
        fragmentation=sampling.fragmentation_seconds,
        deadline=sampling.deadline_seconds,
    )


class Loaded(NamedTuple):
    """A configuration and when it was read, Unix seconds."""

    config: Config
    at: float
    reload_successful: bool


class Daemon:
    """One run of the service."""

    def __init__(self, config_path: str, root: str) -> None:
        self._config_path = config_path
        self._root = root
        self._clock = SystemClock()
        self._supervisor = Supervisor()
        self._publisher = Publisher()
        self._lock = threading.Lock()  # around taking and publishing: there is one writer at a time
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc,
            executors={"default": ThreadPoolExecutor(1), "heartbeat": ThreadPoolExecutor(1)},
            job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
        )
        self._log = structlog.get_logger()
        self._ticked_at = self._clock.monotonic()
        self._failure: str | None = None
        self._loaded: Loaded
        self._studio: Studio

    def run(self) -> int:
        """Until a signal ends it. Returns the exit status."""
        try:
            config = self._load()
        except ConfigError as error:
            log.configure("info", "auto")
            for problem in error.problems:
                self._log.error("config.refused", problem=problem)
            return EXIT_CONFIG
        self._loaded = Loaded(config, self._clock.unix(), reload_successful=True)
        log.configure(config.log.level, config.log.format)
        self._studio = Studio(self._root, pace_of(config), runtime_folder=os.environ.get("RUNTIME_DIRECTORY"))
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # after the launcher began: it must not inherit this
        listen = config.exporter.listen
        web = WebServer(
            listen.host,
            listen.port,
            self._publisher.current,
            self._clock.unix,
            self.reload if config.exporter.reload else None,
        )
        try:
            web.start()
            self._tick()
        except RocmwatchError as error:
            self._log.error("service.failed", reason=str(error))
            return EXIT_FAILED
        self._start_jobs()
        self._supervisor.ready(self._status())
        self._log.info("service.started", listen=listen.host or "*", port=web.port, root=self._root or None)
        self._obey_signals()
        self._supervisor.stopping()
        web.stop()
        self._log.info("service.stopped", reason=self._failure)
        return EXIT_FAILED if self._failure else 0

    def reload(self) -> bool:
        """Reads the configuration anew; a bad one changes nothing but a metric. Returns whether it was accepted."""
        self._supervisor.reloading()
        try:
            config = self._load()
        except ConfigError as error:
            for problem in error.problems:
                self._log.error("config.refused", problem=problem, hint="the last good configuration stays in force")
            self._put_in_force(self._loaded._replace(reload_successful=False))
            accepted = False
        else:
            for key in ("listen", "reload"):
                if getattr(config.exporter, key) != getattr(self._loaded.config.exporter, key):
                    self._log.warning("config.needs_restart", key=f"exporter.{key}")
            log.configure(config.log.level, config.log.format)
            self._put_in_force(Loaded(config, self._clock.unix(), reload_successful=True))
            self._pace_jobs()
            self._log.info("config.reloaded", path=self._config_path)
            accepted = True
        self._supervisor.ready(self._status())
        return accepted

    def _load(self) -> Config:
        config = load(self._config_path)
        if self._supervisor.watchdog_seconds:
            problems = problems_with_watchdog(config, self._supervisor.watchdog_seconds)
            if problems:
                raise ConfigError(problems)
        return config

    def _put_in_force(self, loaded: Loaded) -> None:
        with self._lock:
            self._loaded = loaded
            self._studio.sampler.pace = pace_of(loaded.config)
            view = self._publisher.current()
            if view is not None:
                self._publisher.publish(
                    replace(view, config_loaded_at=loaded.at, config_last_reload_successful=loaded.reload_successful)
                )

    # Jobs

    def _start_jobs(self) -> None:
        self._scheduler.add_job(self._tick_job, "interval", seconds=1, id="tick")
        self._scheduler.add_job(self._heartbeat, "interval", seconds=1, id="heartbeat", executor="heartbeat")
        self._pace_jobs()
        self._scheduler.start()

    def _pace_jobs(self) -> None:
        """From now on, at the pace that is in force."""
        watchdog = self._supervisor.watchdog_seconds
        interval = self._loaded.config.sampling.interval_seconds
        self._scheduler.reschedule_job("tick", trigger="interval", seconds=interval)
        self._scheduler.reschedule_job(
            "heartbeat", trigger="interval", seconds=watchdog / 3 if watchdog else STATUS_SECONDS
        )

    def _tick(self) -> None:
        with self._lock:
            before = self._publisher.current()
            view = self._studio.take(
                config_loaded_at=self._loaded.at, config_last_reload_successful=self._loaded.reload_successful
            )
            self._publisher.publish(view)
        self._ticked_at = self._clock.monotonic()
        for edge in edges(before.snapshot if before else None, view.snapshot):
            getattr(self._log, edge.level)(edge.event, **edge.facts)

    def _tick_job(self) -> None:
        try:
            self._tick()
        except LauncherLost as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001  # the one place that keeps a bug in a tick from ending all ticks
            self._log.error("tick.failed", error=repr(error), traceback=traceback.format_exc())

    def _heartbeat(self) -> None:
        limit = max(self._supervisor.watchdog_seconds or 0, 3 * self._loaded.config.sampling.interval_seconds)
        if self._clock.monotonic() - self._ticked_at < limit:
            self._supervisor.alive(self._status())
        else:
            self._supervisor.status(self._status())  # no tick came through: systemd may do what it does

    def _status(self) -> str:
        view = self._publisher.current()
        age = self._clock.monotonic() - self._ticked_at
        return f"{gpus_in_words(view.snapshot) if view else 'no tick yet'}; last tick {age:.1f} s ago"

    # Signals

    def _obey_signals(self) -> None:
        offset = self._clock.unix() - self._clock.monotonic()
        while True:
            received = signal.sigtimedwait(_SIGNALS, CLOCK_LOOK_SECONDS)
            if received is not None and received.si_signo != signal.SIGHUP:
                return
            if received is not None:
                self.reload()
            now = self._clock.unix() - self._clock.monotonic()
            if abs(now - offset) > CLOCK_STEP_SECONDS:  # the scheduler goes by the wall clock, and would wait for it
                self._log.warning("clock.stepped", seconds=round(now - offset, 1))
                self._pace_jobs()
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
