"""Work on several cores: NumPy lets go of the interpreter while it computes."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Job = TypeVar("Job")
Found = TypeVar("Found")

MOST = 4
"""Threads: beyond, they wait for each other."""


def run(work: Callable[[Job], Found], jobs: Sequence[Job]) -> Iterator[Found]:
    """The results in the order of the jobs, each as soon as it is there."""
    workers = min(MOST, len(jobs), len(os.sched_getaffinity(0)))
    if workers < 2:
        yield from map(work, jobs)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(work, jobs)
