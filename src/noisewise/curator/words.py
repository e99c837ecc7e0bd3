"""A record as one whole number, or two: whose it is, the group, and what tells its contribution.

Records of persons are held while they are chosen from. As one number they take the least memory,
move at once, and are in order of what they contribute wherever they are in order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar, final

import duckdb
import numpy as np

from noisewise.curator.choice import PART, kept_codes, kept_codes_of
from noisewise.mechanism.lattice import Stage
from noisewise.model import threads
from noisewise.model.arrays import FloatArray, IntArray

Found = TypeVar("Found")

EXACT = 53
"""Bits of a whole number that a float holds."""
TOGETHER = 30
"""Bits of a code, at most, beside which a person's number may stand in one word."""
TALLIED = 16
"""Bits of a code, at most, of which every value gets a counter."""
Ranges: TypeAlias = Sequence[tuple[int, int]]
"""The least and the greatest of each of some whole numbers."""


@final
@dataclass(frozen=True, slots=True)
class Code:
    """Whole numbers within public ranges as one: the first has the highest bits. One that is
    missing is the greatest, and one more.
    """

    ranges: tuple[tuple[int, int], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """The bits of each."""
        return tuple((high - low + 1).bit_length() for low, high in self.ranges)

    @property
    def bits(self) -> int:
        """Of all of them."""
        return sum(self.widths)

    @property
    def shifts(self) -> tuple[int, ...]:
        """How many bits stand behind each."""
        return tuple(self.bits - end for end in accumulate(self.widths))

    def query(self, columns: Sequence[str], some_missing: bool) -> str:
        """The code of columns, as SQL: exact in floats."""
        ranges = zip(columns, self.ranges, strict=True)
        steps = [f"({name} - {low}.0)" for name, (low, _) in ranges]
        code = self._joined(steps)
        if not some_missing:
            return code
        # the greatest itself may be 2^53, and has no float above it: one more step does
        missing = [f"{high - low + 1}.0" for low, high in self.ranges]
        known = [f"coalesce({step}, {last})" for step, last in zip(steps, missing, strict=True)]
        return f"coalesce({code}, {self._joined(known)})"  # the second only where one is missing

    def _joined(self, steps: Sequence[str]) -> str:
        shifted = zip(steps, self.shifts, strict=True)
        return " + ".join(step + (f" * {1 << by}.0" if by else "") for step, by in shifted)

    def columns(self, codes: IntArray) -> tuple[FloatArray, ...]:
        """The whole numbers, NaN where one is missing."""
        out = []
        for (low, high), width, by in zip(self.ranges, self.widths, self.shifts, strict=True):
            step = (codes >> by) & ((1 << width) - 1)
            column = step + np.float64(low)
            missing = step > high - low
            if missing.any():
                column[missing] = np.nan
            out.append(column)
        return tuple(out)


@final
@dataclass(frozen=True, slots=True)
class Words:
    """Records as whole numbers: the person's times 2^bits and a code in one, or apart."""

    code: Code
    words: IntArray
    """Or the codes alone, where there are numbers beside them."""
    number: IntArray | None = None

    def __len__(self) -> int:
        return len(self.words)

    def kept(self, most: int, use: Callable[[IntArray], Found]) -> list[Found]:
        """What `use` makes of the codes that are kept, some at a time. All of it is moved."""
        if self.number is None:
            return kept_codes(self.words, self.code.bits, most, use)
        return kept_codes_of(self.number, self.words, most, use)


def read_words(
    records: duckdb.DuckDBPyRelation, code: Code, columns: Sequence[str], some_missing: bool
) -> Words | None:
    """The records that are somebody's; None where whole numbers do not hold them."""
    if code.bits > EXACT:
        return None
    known, query = "FROM records WHERE person IS NOT NULL", code.query(columns, some_missing)
    if code.bits <= TOGETHER:
        word = f"person::DOUBLE * {1 << code.bits}.0 + {query}"
        together = records.query("records", f"SELECT {word} AS word {known}").fetchnumpy()
        if (words := _whole(together["word"])) is not None:
            return Words(code, words)
    apart = records.query("records", f"SELECT person, {query} AS code {known}").fetchnumpy()
    codes = _whole(apart["code"])
    return None if codes is None else Words(code, codes, apart["person"])


def _whole(floats: FloatArray) -> IntArray | None:
    """Whole numbers, where the floats were; None if there is one that floats need not hold."""
    if np.ma.isMaskedArray(floats):  # something is NULL that is said never to be
        return None
    words: IntArray = floats.view(np.int64)

    def exact(part: slice) -> bool:
        own = floats[part]
        small = bool((np.abs(own) < 2.0**EXACT).all())  # NaN is not
        if small:
            words[part] = own
        return small

    parts = [slice(at, at + PART) for at in range(0, len(floats), PART)]
    return words if all(threads.run(exact, parts)) else None


def sums_of_words(
    words: Words, stages: Sequence[Stage], most: int, groups: int | None
) -> tuple[IntArray, IntArray]:
    """How many records are kept of each group, (groups,), and the sums of what the stages make of
    their columns, (groups, d); `most` of each person. With groups the first of the code's whole
    numbers is the group.
    """

    def summed(codes: IntArray) -> tuple[IntArray, IntArray]:
        columns = words.code.columns(codes)
        if groups is not None:
            group, columns = columns[0].astype(np.int64), columns[1:]
        for stage in stages:
            columns = stage(columns, np)
        if groups is None:
            sums = np.array([[column.sum() for column in columns]])
            return np.array([len(codes)]), sums.astype(np.int64)
        sums = np.stack([np.bincount(group, column, groups) for column in columns], axis=1)
        return np.bincount(group, minlength=groups), sums.astype(np.int64)

    n, sums = zip(*words.kept(most, summed), strict=True)
    return np.sum(n, axis=0), np.sum(sums, axis=0)


def tally_of_words(
    words: Words, labels: Sequence[Sequence[str] | None], most: int
) -> list[tuple[Any, ...]]:
    """How many of the records that are kept are alike: rows of the code's whole numbers, None where
    one is missing, and the number of records. Those with labels are labels.
    """
    values = 1 << words.code.bits
    tallies = words.kept(most, lambda codes: np.bincount(codes, minlength=values))
    counts: IntArray = np.sum(tallies, axis=0)
    found = np.flatnonzero(counts)
    columns = [
        [None if np.isnan(k) else k if own is None else own[int(k)] for k in column.tolist()]
        for column, own in zip(words.code.columns(found), labels, strict=True)
    ]
    return list(zip(*columns, counts[found].tolist(), strict=True))
