"""Work on several cores: NumPy lets go of the interpreter while it computes."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Job = TypeVar("Job")
Found = TypeVar("Found")

MOST = 4
"""Threads: beyond, they wait for each other."""


def workers(jobs: int) -> int:
    """How many threads so many jobs get."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(MOST, jobs, cores)


def run(work: Callable[[Job], Found], jobs: Sequence[Job]) -> Iterator[Found]:
    """The results in the order of the jobs, each as soon as it is there."""
    number = workers(len(jobs))
    if number < 2:
        yield from map(work, jobs)
        return
    with ThreadPoolExecutor(number) as pool:
        yield from pool.map(work, jobs)
