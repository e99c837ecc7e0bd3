"""Forks many releases from a process that has started no threads. Run by test_ledger.py: python forks.py race|kill FOLDER"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import noisewise
from noisewise import Bounds, families
from noisewise.errors import BudgetExceeded
from noisewise.mechanism.secure import laplace_scale


def publish(folder: Path, out: Path) -> None:
    settings = {"column": "x", "family": families.Poisson(), "bounds": Bounds(0, 9, outside="clamp"), "epsilon": "0.1"}
    noisewise.release(folder / "t.csv", **settings, ledger=folder / "budget.db", dataset="visits", out=out)


def child(job: Callable[[], int]) -> int:
    """A forked process that ends with the job's status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = job()
        finally:
            os._exit(status)
    return pid


def race(folder: Path) -> dict[str, list[int]]:
    """Sixteen releases at once: 0 for one that was made, 7 for one that the budget refused."""
    gate_in, gate_out = os.pipe()

    def job(out: Path) -> int:
        os.read(gate_in, 1)
        try:
            publish(folder, out)
        except BudgetExceeded:
            return 7
        return 0

    pids = [child(lambda out=folder / f"{i}.json": job(out)) for i in range(16)]  # type: ignore[misc]
    os.write(gate_out, b"x" * 16)
    return {"outcomes": [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]}


def kill(folder: Path) -> dict[str, float]:
    """200 releases, each killed with SIGKILL at a random instant."""

    def job(out: Path) -> int:
        publish(folder, out)
        return 0

    began = time.monotonic()
    os.waitpid(child(lambda: job(folder / "first.json")), 0)
    duration = time.monotonic() - began
    for i in range(200):
        pid = child(lambda out=folder / f"{i}.json": job(out))  # type: ignore[misc]
        time.sleep(random.Random(i).uniform(0, 1.3 * duration))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"duration": duration}


if __name__ == "__main__":
    assert noisewise.release  # everything is loaded before the first fork, and no thread is started
    laplace_scale(1, Decimal(1))
    print(json.dumps({"race": race, "kill": kill}[sys.argv[1]](Path(sys.argv[2]))))
