"""A part of the records of a cluster, summed by the same code as a table in memory."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, final

from noisewise.curator.persons import FAILED, keys_of
from noisewise.curator.reading import Persons, Reading
from noisewise.curator.sums import Held
from noisewise.mechanism.lattice import Lattice

Row = list[int] | None
"""The whole numbers of a part; None if it could not be read. An exception would be logged by the
engine, with the part.
"""


@final
@dataclass(frozen=True, slots=True)
class Work:
    """What is done with one part: open it, and give its whole numbers in one row."""

    reading: Reading
    lattice: Lattice | None = None
    bins: tuple[float, float, int] | None = None

    @property
    def width(self) -> int:
        """How many numbers there are."""
        if self.bins is not None:
            return 2 + self.bins[2]
        if self.lattice is None:
            return 1
        return len(self.reading.groups or (None,)) * (1 + self.lattice.width)

    @property
    def key(self) -> str:
        """A name that is longer than any column's, for whose a record is."""
        return "key" + "_" * max(map(len, self.reading.names))

    def of_keys(self) -> "Work":
        """The same of parts that hold all records of a person or none, under the keys `keyed`
        gave.
        """
        persons = self.reading.persons
        assert persons is not None
        own = Persons(self.key, persons.most, "key")
        return replace(self, reading=replace(self.reading, persons=own))

    def keyed(self, part: Any) -> list[str | None]:
        """Whose each record of a part is; FAILED where that cannot be read, for an exception would
        be logged by the engine, with the part.
        """
        persons = self.reading.persons
        assert persons is not None
        with suppress(Exception):
            return keys_of(part, persons.column)
        return [str(FAILED)] * len(part)

    def __call__(self, part: Any) -> Row:
        with suppress(Exception):
            return self._numbers(part)
        return None

    def _numbers(self, part: Any) -> list[int]:
        held = Held.open(part, self.reading)
        if held.failed():
            raise ValueError
        if self.bins is not None:
            n, counts = held.bin_counts(*self.bins)
            return [n, *counts]
        if self.lattice is None:
            return [held.count()]
        return [number for n, sums in held.sums(self.lattice) for number in (n, *sums)]


def added(rows: Iterable[Row], width: int) -> Row:
    """The sums of parts; None if one of them is."""
    total = [0] * width
    for row in rows:
        if row is None:
            return None
        total = [a + b for a, b in zip(total, row, strict=True)]
    return total
