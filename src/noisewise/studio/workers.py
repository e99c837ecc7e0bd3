"""The processes that work for the studio: one is kept ready, since its imports take a second."""

import subprocess
import sys
import threading
from contextlib import suppress
from typing import final

MOST_IDLE = 2
"""Workers that wait for more to do."""
Worker = subprocess.Popen[str]
"""A process that takes a line of JSON for each piece of work (`worker.py`)."""


@final
class Workers:
    """Those that are ready, of all studios of this process. `eager`: one more is started whenever
    the last is taken.
    """

    def __init__(self, *, eager: bool = True) -> None:
        self._eager = eager
        self._idle: list[Worker] = []
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Have one ready."""
        with self._lock:
            if self._eager and not self._idle:
                self._idle.append(_started(ready=True))

    def take(self) -> Worker:
        """One that does nothing yet. Whoever takes it gives it back, or ends it."""
        with self._lock:
            alive = [one for one in self._idle if one.poll() is None]
            for one in self._idle:
                if one not in alive:
                    end(one)
            taken = alive.pop() if alive else _started()
            self._idle = alive
        self.warm()
        return taken

    def give_back(self, worker: Worker) -> None:
        """One that has done its work, and can do more."""
        with self._lock:
            if worker.poll() is None and len(self._idle) < MOST_IDLE:
                self._idle.append(worker)
                return
        end(worker)

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            end(one)


def end(worker: Worker) -> None:
    """For good, whatever it does."""
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not read is of no use
                pipe.close()


def _started(*, ready: bool = False) -> Worker:
    """-P: a module in the folder is never taken for one of Python's. A session of its own: Ctrl-C
    in the terminal is the studio's to answer.
    """
    command = [sys.executable, "-P", "-m", "noisewise.studio.worker"]
    return subprocess.Popen(  # noqa: S603
        [*command, "--ready"] if ready else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
