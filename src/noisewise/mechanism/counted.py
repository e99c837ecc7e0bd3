"""Records that need not count: how many do is released, with noise, beside their statistics."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.mechanism.lattice import Coordinates, Lattice, Plain, Stage, Told
from noisewise.mechanism.missing import DROPPED
from noisewise.mechanism.sensitivity import Sensitivity, Size
from noisewise.model.arrays import FloatArray, Namespace


@final
@dataclass(frozen=True, slots=True)
class Counted(Lattice):
    """Another lattice, of the records that count; one that does not contributes 0 to the count and
    to every statistic.

    A record that counts contributes its offset too, because how many do is not public.
    """

    counted: ClassVar[bool] = True
    tells_n: ClassVar[bool] = False
    inner: Lattice
    drop: bool
    """Whether a record without a value does not count. Otherwise all that are read do."""
    replaced: bool
    """Whether neighbours replace a record within one table, by one that may not count."""

    @property
    def coordinates(self) -> Coordinates:
        return self.inner.coordinates

    @property
    def step(self) -> tuple[float, ...]:
        return self.inner.step

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((min(low, 0), max(high, 0)) for low, high in self.inner.ranges)

    @property
    def sensitivity(self) -> Sensitivity:
        return self.inner.sensitivity

    @property
    def room(self) -> Size | None:
        """Half of what a record may add to the statistics: of a mean, the noise of the sum matters
        more than that of the count. Where records come and go, both have the same share.
        """
        if not self.replaced:
            return None
        record = self.sensitivity.record
        return Size(-(-record.l1 // 2), -(-record.l2_squared // 2))

    @property
    def names(self) -> list[str]:
        return self.inner.names

    @property
    def note(self) -> str:
        return DROPPED if self.drop else self.inner.note

    @property
    def fallible(self) -> Plain | None:
        return self.inner.fallible

    @property
    def trial(self) -> FloatArray:
        return self.inner.trial

    @property
    def stages(self) -> tuple[Stage, ...]:
        if not self.drop:
            return *self.inner.stages, self.all_counted
        return self.counting, *map(_beside, self.inner.stages), self.blank

    @property
    def told(self) -> Told:
        """What tells the other lattice's, and whether it counts, if not all do."""
        inner = self.inner.told
        if not self.drop:
            return inner
        return Told(1 + inner.stages, ((0, 1), *inner.ranges), inner.some_missing)

    def counting(self, x: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """1 or 0 for whether a record counts, and the record."""
        (value,) = x
        absent = 0.0 if self.drop else 1.0
        return xp.where(self.inner.has_value(value, xp), 1.0, absent), value

    def all_counted(self, whole: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """1 for every record, and its whole numbers."""
        offsets = zip(whole, self.inner.offset, strict=True)
        return whole[0] * 0.0 + 1.0, *(k + float(least) for k, least in offsets)

    def blank(self, counting: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The whole numbers, 0 for a record that does not count."""
        counts, *whole = counting
        offsets = zip(whole, self.inner.offset, strict=True)
        return counts, *(xp.where(counts > 0.5, k + float(least), 0.0) for k, least in offsets)


def _beside(stage: Stage) -> Stage:
    """The stage, of all columns but the first, which is kept."""
    return lambda columns, xp: (columns[0], *stage(columns[1:], xp))
