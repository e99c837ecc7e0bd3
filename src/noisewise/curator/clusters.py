"""Records that lie spread over many machines: Spark and Dask frames. Every part is summed where it
is, and only the totals, whole numbers, come back.
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, final

import numpy as np

from noisewise.curator import spark_frames
from noisewise.curator.parts import Row, Work, added
from noisewise.curator.reading import Reading
from noisewise.curator.schema import check_columns, wrong_type
from noisewise.curator.shield import UNREADABLE, shielded
from noisewise.curator.sums import Held, Rows
from noisewise.errors import RecordsError
from noisewise.mechanism.lattice import Lattice, Sums

BRANCHES = 16
"""So many rows of totals are added up in one task, on Dask: few tasks, and none with too many."""
Total = Callable[[Work], Row]
"""Runs the work on every part of the records and adds up what it gives."""


def open_rows(records: Any, reading: Reading) -> Rows:
    """What is read of the records, wherever they are."""
    # who holds such a frame has imported it
    spark, dask = sys.modules.get("pyspark.sql"), sys.modules.get("dask.dataframe")
    on_spark = spark is not None and isinstance(records, spark.DataFrame)
    if not on_spark and (dask is None or not isinstance(records, dask.DataFrame)):
        return Held.open(records, reading)
    check_columns(shielded(lambda: list(records.columns)), reading.columns)
    reading.label_keys()
    reading.level_keys()
    reading.group_keys()
    if not on_spark:
        return Spread(lambda work: _dask_total(records[reading.names], work), reading)
    kinds = shielded(lambda: spark_frames.kinds_of(records))
    for name in reading.names:
        if kinds[name] not in spark_frames.KINDS:
            raise RecordsError(wrong_type(name))
    return Spread(lambda work: spark_frames.total(records, work), reading)


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """Records in parts; every pass goes through the shield."""

    total: Total
    reading: Reading

    def count(self) -> int:
        return self._run()[0]

    def sums(self, lattice: Lattice) -> list[Sums]:
        numbers, each = self._run(lattice=lattice), 1 + lattice.width
        return [
            (numbers[start], numbers[start + 1 : start + each])
            for start in range(0, len(numbers), each)
        ]

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        n, *counts = self._run(bins=(lower, width, bins))
        return n, counts

    def _run(self, **task: Any) -> list[int]:
        work = Work(self.reading, **task)
        with SILENCE:
            numbers = shielded(lambda: self.total(work), UNREADABLE)
        if numbers is None:
            raise RecordsError(UNREADABLE)
        return numbers


@final
class _Silence:
    """No Python logging while anybody is within: the engines' loggers quote records when a query
    fails. What the JVM logs is for its own settings to decide.
    """

    def __init__(self) -> None:
        self._lock, self._within, self._before = Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            if self._within == 0:
                self._before = logging.root.manager.disable
                logging.disable(logging.CRITICAL)
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                logging.disable(self._before)


SILENCE = _Silence()
"""One for the process, whose logging it switches off and on."""


def _dask_total(frame: Any, work: Work) -> Row:
    from dask.delayed import delayed

    if work.reading.persons is not None:
        # in memory: other ways of bringing a person's records together write them to disk
        frame = frame.map_partitions(_with_keys, work).shuffle(work.key, shuffle_method="tasks")
        work = work.of_keys()
        frame = frame[work.reading.names]
    parts = [delayed(work)(part) for part in frame.to_delayed()]
    while len(parts) > 1:  # in a tree, where the parts are
        parts = [
            delayed(added)(parts[start : start + BRANCHES], work.width)
            for start in range(0, len(parts), BRANCHES)
        ]
    return parts[0].compute() if parts else [0] * work.width


def _with_keys(part: Any, work: Work) -> Any:
    """A part, and whose each record is."""
    return part.assign(**{work.key: np.array(work.keyed(part), dtype=object)})
