"""Work that takes longer than a blink: one process each, with progress, that can be cancelled.

Jobs live as long as the studio: a page that is loaded again, or in a second tab, finds its own.
"""

import json
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

from noisewise.studio.workers import Worker, Workers, end

State = Literal["waiting", "working", "paying", "done", "failed", "cancelled"]
MOST_KEPT = 100
"""Jobs whose outcome is remembered."""
AT_ONCE = 2
"""Jobs that work side by side; others wait."""
PATIENCE = 30.0
"""Seconds that stopping waits for a release that is being paid for, so that it is written."""
OVER = ("done", "failed", "cancelled")
"""States in which nothing happens any more."""


@final
@dataclass
class Job:
    """One piece of work: what was asked, and what became of it."""

    id: str
    task: str
    arguments: dict[str, Any]
    command: str
    state: State = "waiting"
    progress: float = 0.0
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    process: Worker | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        return self.state in OVER

    def cancel(self) -> bool:
        """False where it is too late: a release that is paid for must be written."""
        with self.lock:
            if self.state == "paying" or self.over:
                return False
            self.state = "cancelled"
            if self.process is not None:
                self.process.kill()
            return True


@final
class Jobs:
    """All of one studio's."""

    def __init__(self, root: Path, workers: Workers) -> None:
        self._root, self._workers = root, workers
        self._all: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._room = threading.Semaphore(AT_ONCE)
        self._threads: list[threading.Thread] = []

    def start(
        self, task: str, arguments: dict[str, Any], command: str, name: str | None = None
    ) -> Job:
        """A new job, or the one of that name: what is asked twice is done once. One that failed or
        was cancelled is begun anew.
        """
        with self._lock:
            known = self._all.get(name) if name is not None else None
            if known is not None and known.state not in ("failed", "cancelled"):
                return known
            job = Job(name or secrets.token_urlsafe(12), task, arguments, command)
            self._all[job.id] = job
            self._forget()
        thread = threading.Thread(target=self._run, args=(job,), daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()
        return job

    def get(self, name: str) -> Job | None:
        """The job of that name, if it is remembered."""
        with self._lock:
            return self._all.get(name)

    def close(self) -> None:
        """End all work; a release that is being paid for is waited for."""
        with self._lock:
            jobs = list(self._all.values())
        for job in jobs:
            job.cancel()
        late = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, late - time.monotonic()))

    def _forget(self) -> None:
        """The oldest that are over."""
        for name in [name for name, job in self._all.items() if job.over]:
            if len(self._all) <= MOST_KEPT:
                return
            del self._all[name]

    def _run(self, job: Job) -> None:
        with self._room:
            with job.lock:
                if job.over:
                    return
                job.process = self._workers.take()
                job.state = "working"
            try:
                self._follow(job, job.process)
            finally:
                with job.lock:
                    finished = job.state in ("done", "failed") and job.task != "publish"
                    if not job.over:
                        job.state, job.error = "failed", _ENDED[job.task == "publish"]
                # a release's records and exact sums go with their process
                (self._workers.give_back if finished else end)(job.process)

    def _follow(self, job: Job, process: Worker) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = {"root": str(self._root), "task": job.task, "arguments": job.arguments}
        try:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                told = json.loads(line)
                with job.lock:
                    if job.over:
                        return
                    if "progress" in told:
                        job.progress = min(max(float(told["progress"]), job.progress), 1.0)
                    elif "ask" in told:
                        job.state = "paying"
                        process.stdin.write("go\n")
                        process.stdin.flush()
                    elif "done" in told:
                        job.result, job.state = told["done"], "done"
                    else:
                        job.error, job.state = str(told["failed"]), "failed"
                    if job.over:
                        return
        except (BrokenPipeError, ValueError):  # the worker died in the middle of a line
            return


_ENDED = {
    False: "the work ended without a word: it was killed, or memory ran out.",
    True: "the release ended without a word: it was killed, or memory ran out. The ledger tells "
    "whether it was paid for.",
}
"""Of a worker that says nothing more; of one that publishes."""
