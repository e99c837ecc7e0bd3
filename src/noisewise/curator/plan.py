"""What a release will be, from public facts alone: refused here, it has read nothing and spent
nothing.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import final

from noisewise.curator.reading import Persons, Reading
from noisewise.curator.settings import Settings
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.counted import Counted
from noisewise.mechanism.lattice import Lattice, lattice_for
from noisewise.mechanism.mechanisms import Mechanism, mechanism_for
from noisewise.mechanism.missing import DROP, Missing
from noisewise.mechanism.noise import DiscreteGaussian, DiscreteLaplace
from noisewise.model.bounds import Bounds

MOST_WEIGHT = 2**26
"""Lattice steps of one record where n is not public: sums of 2^36 records stay below MOST_SUM."""


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A release's settings within some bounds, and the noise that follows from them."""

    settings: Settings
    bounds: Bounds | None
    lattice: Lattice
    mechanism: Mechanism
    count_weight: int
    """How many lattice steps a record adds to the released count; 0 where no count is released."""
    sensitivity: float
    """How far one person can move everything that is released, in lattice steps and the mechanism's
    norm.
    """
    scale: float
    """Of the noise, in lattice steps."""

    @classmethod
    def widest(cls, settings: Settings) -> "Plan":
        """Within the given bounds, or within the whole range of private ones."""
        return cls._make(settings, settings.widest_bounds, settings.missing)

    def narrowed(self, bounds: Bounds) -> "Plan":
        """Within privately chosen bounds. A missing record stands for a value within them."""
        missing = self.settings.missing
        if isinstance(missing, Real):
            missing = min(max(missing, bounds.lower), bounds.upper)
        return self._make(self.settings, bounds, missing)

    @classmethod
    def _make(cls, settings: Settings, bounds: Bounds | None, missing: Missing) -> "Plan":
        lattice = lattice_for(settings.family, bounds, missing)
        if settings.some_do_not_count and not (lattice.counted or lattice.adds_up_to_n):
            replaced = settings.relation == "replace_one"
            lattice = Counted(lattice, missing == DROP, replaced)
        mechanism = mechanism_for(settings.cost)
        weight, power = mechanism.reach(lattice, settings.relation)
        if weight > MOST_WEIGHT:
            raise UnsupportedCombination(
                "the bounds lie too far from 0 for their width, where n is not public; release x "
                "less a public constant."
            )
        power = mechanism.of_person(power, settings.records_per_person)
        scale = mechanism.smallest_scale(power, settings.cost.amount)
        distance = mechanism.distance(power)
        return cls(settings, bounds, lattice, mechanism, weight, distance, scale)

    @property
    def public(self) -> bool:
        """Whether n is public."""
        return self.settings.relation == "replace_one" and self.settings.person is None

    @property
    def tells_n(self) -> bool:
        """Whether n stands in the release: of a table, it is not how many records have a cell, and
        of records that may be dropped, not how many are left.
        """
        return self.public and self.lattice.tells_n

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The least and the greatest contribution of a record to each number that is released."""
        return [*self.lattice.ranges, (0, self.count_weight)]

    @property
    def reading(self) -> Reading:
        """What is read of a record."""
        groups = self.settings.grouping
        by, names = (None, None) if groups is None else (groups.by, groups.values)
        lattice, settings = self.lattice, self.settings
        persons = None
        if settings.person is not None:
            persons = Persons(settings.person, settings.records_per_person)
        return Reading(settings.column, lattice.labels, by, names, lattice.columns, persons)

    @property
    def noise(self) -> DiscreteLaplace | DiscreteGaussian:
        """The noise in the statistic's units."""
        step = self.lattice.step
        return self.mechanism.law(tuple(self.scale * one for one in step), step)

    @property
    def count_noise(self) -> DiscreteLaplace | DiscreteGaussian | None:
        """The noise of the released count; None where no count is released."""
        weight = self.count_weight
        return self.mechanism.law(self.scale / weight, 1 / weight) if weight else None

    def noise_sd(self) -> list[float]:
        """Standard deviation of the noise on each statistic."""
        return [self.mechanism.sd(self.scale) * step for step in self.lattice.step]

    def largest_sampling_sd(self, n: int) -> list[float]:
        """At most this much does each statistic vary by the chance of who the n records are:
        sqrt(n) * range / 2.
        """
        ranges = zip(self.lattice.ranges, self.lattice.step, strict=True)
        return [math.sqrt(n) * (hi - lo) * step / 2 for (lo, hi), step in ranges]
