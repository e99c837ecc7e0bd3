"""Forks many releases from a process that has started no threads: python forks.py
race|kill|steps|full|closed FOLDER

Run by test_ledger.py and test_faults.py.
"""

import ctypes
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.curator.ledger import Ledger
from noisewise.errors import BudgetExceeded, NoisewiseError
from noisewise.mechanism.mechanisms import LaplaceMechanism

SOURCE = str(Path(noisewise.__file__).parent)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "private": {"bounds": PrivateBounds(0, 100, epsilon="0.1", outside="clamp")},
    "groups": {"by": "x", "groups": [1, 2], "sizes": "released"},
}


def publish(folder: Path, out: Path, kind: str = "plain") -> None:
    settings: dict[str, Any] = {
        "column": "x",
        "family": families.Poisson(),
        "bounds": Bounds(0, 9, outside="clamp"),
    }
    settings |= {
        "epsilon": "0.1",
        "ledger": folder / "budget.db",
        "dataset": "visits",
        "out": out,
    } | KINDS[kind]
    noisewise.release(folder / "t.csv", **settings)


def forks(what: str, folder: Path) -> Any:
    """One of the jobs below in a process of its own: to fork one that has started threads is not
    safe.
    """
    done = subprocess.run(
        [sys.executable, __file__, what, str(folder)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def ended(pid: int) -> int:
    """Its exit status; that of a killed one is negative."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


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
    return {"outcomes": [ended(pid) for pid in pids]}


def kill(folder: Path) -> dict[str, float]:
    """100 releases, each killed with SIGKILL at a random instant."""

    def job(out: Path) -> int:
        publish(folder, out)
        return 0

    began = time.monotonic()
    ended(child(lambda: job(folder / "first.json")))
    duration = time.monotonic() - began
    for i in range(100):
        pid = child(lambda out=folder / f"{i}.json": job(out))  # type: ignore[misc]
        time.sleep(random.Random(i).uniform(0, 1.3 * duration))
        os.kill(pid, signal.SIGKILL)
        ended(pid)
    return {"duration": duration}


Place = tuple[str, int]


def reached(place: Callable[[Place], None]) -> None:
    """From here on, tell of every line of noisewise before it runs, once a release is being
    published.
    """
    publishing = False

    def line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            place((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, _: str, __: object) -> Any:
        nonlocal publishing
        publishing = publishing or frame.f_code.co_qualname == "Prepared.publish"
        return line if publishing and frame.f_code.co_filename.startswith(SOURCE) else None

    sys.settrace(call)


def lines(folder: Path, out: Path, kind: str, pipe: int) -> int:
    seen: dict[Place, None] = {}
    reached(lambda place: seen.setdefault(place))
    publish(folder, out, kind)
    sys.settrace(None)
    with os.fdopen(pipe, "w") as file:
        json.dump(list(seen), file)
    return 0


def cut(folder: Path, out: Path, kind: str, last: Place) -> int:
    reached(lambda place: os.kill(os.getpid(), signal.SIGKILL) if place == last else None)
    publish(folder, out, kind)
    return 0


def steps(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Releases killed with SIGKILL before each line of noisewise that publishing reaches: their
    files and exit statuses.
    """
    left: dict[str, list[tuple[str, int]]] = {}
    known: set[Place] = set()
    for kind in KINDS:
        suffix = "jsonl" if kind == "groups" else "json"
        read, write = os.pipe()
        pid = child(partial(lines, folder, folder / f"{kind}.{suffix}", kind, write))
        os.close(write)
        with os.fdopen(read) as file:
            places: list[Place] = [(name, number) for name, number in json.load(file)]
        ended(pid)
        left[kind] = []
        for place in (place for place in places if place not in known):
            out = folder / f"{kind}-{Path(place[0]).stem}-{place[1]}.{suffix}"
            left[kind].append((out.name, ended(child(partial(cut, folder, out, kind, place)))))
        known |= set(places)
    return left


def refused(folder: Path, out: Path) -> int:
    """0 for a release that was made, 7 for one that was refused in our own words."""
    try:
        publish(folder, out)
    except NoisewiseError:
        return 7
    return 0


def crowded(folder: Path, out: Path, size: int, late: bool) -> int:
    def shrink() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    spend = Ledger.spend

    def then_full(*words: Any) -> str:
        made = spend(*words)
        shrink()
        return made

    if late:
        Ledger.spend = then_full  # type: ignore[method-assign]
    else:
        shrink()
    return refused(folder, out)


def full(folder: Path) -> dict[str, list[int]]:
    """Releases that may write files of so many bytes and no more: from the start, and from the
    spend on.
    """
    sizes = [*range(0, 49152, 1536), 10**7]
    return {
        when: [
            ended(
                child(
                    partial(crowded, folder, folder / f"{when}-{size}.json", size, when == "late")
                )
            )
            for size in sizes
        ]
        for when in ("early", "late")
    }


def closed(folder: Path) -> dict[str, int]:
    """One release with every folder and file as the modes say, also for root: its power to pass
    them by is given up.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) or libc.capset(
        header, (ctypes.c_uint32 * 6)(*(part & ~0b110 for part in sets))
    ):
        raise OSError(ctypes.get_errno(), "capset")
    return {"outcome": refused(folder, folder / "out" / "r.json")}


if __name__ == "__main__":
    assert noisewise.release  # everything is loaded before the first fork, and no thread is started
    LaplaceMechanism().smallest_scale(1, Decimal(1))
    jobs: dict[str, Callable[[Path], Any]] = {
        "race": race,
        "kill": kill,
        "steps": steps,
        "full": full,
        "closed": closed,
    }
    print(json.dumps(jobs[sys.argv[1]](Path(sys.argv[2]))))
