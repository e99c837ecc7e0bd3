"""The two ways of making whole numbers private, and everything that differs between them.

Both add independent noise k with P(k) proportional to exp(-|k|^p / p scale^p), p being the order.
With p = 1 it is Laplace noise, with p = 2 normal noise. If no neighbouring table lies further than
D in the norm of that order, it costs (D / scale)^p / p: an epsilon for p = 1 (Dwork et al. 2006), a
rho for p = 2 (Bun & Steinke 2016, Proposition 1.6). So the p-th power of a distance is what is
measured here: it is a whole number, and those of separate numbers add up.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal, final

import numpy as np

from noisewise.mechanism import opendp
from noisewise.mechanism.lattice import Lattice
from noisewise.mechanism.noise import DiscreteGaussian, DiscreteLaplace
from noisewise.mechanism.privacy import Cost, Currency, Relation, quotient
from noisewise.mechanism.sensitivity import Size
from noisewise.model.arrays import FloatArray


class Mechanism(ABC):
    """Adds discrete noise to whole numbers. A `power` is the p-th power of a distance."""

    currency: ClassVar[Currency]
    """What its cost is counted in."""
    order: ClassVar[Literal[1, 2]]
    """p."""
    name: ClassVar[str]
    """Of the noise, for people."""
    law: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]]
    """Of the noise, for whoever reads the release."""

    @abstractmethod
    def power(self, size: Size) -> int:
        """The p-th power of a size in the norm of this order."""

    @abstractmethod
    def distance(self, power: int) -> float:
        """The distance that has this power."""

    @abstractmethod
    def least_weight(self, power: int) -> int:
        """The least whole number whose p-th power is no less."""

    @abstractmethod
    def most_weight(self, power: int) -> int:
        """The largest whole number whose p-th power is no more."""

    @abstractmethod
    def smallest_scale(self, power: int, amount: Decimal) -> float:
        """The smallest scale, in lattice steps, that OpenDP certifies to cost no more than that."""

    @abstractmethod
    def add_noise(self, sums: Sequence[int], scale: float) -> list[int]:
        """The sums plus noise, drawn by OpenDP."""

    @abstractmethod
    def sd(self, scale: float) -> float:
        """The standard deviation of the noise, or at most a hair more."""

    @abstractmethod
    def may_move(self, steps: float, records_per_person: int) -> bool:
        """Whether so many records can move whole numbers by that distance, as far as it tells."""

    @final
    def of_person(self, power: int, records_per_person: int) -> int:
        """The power for so many records instead of one: all of them may move the same way."""
        scaled: int = power * records_per_person**self.order
        return scaled

    @final
    def reach(self, lattice: Lattice, neighbours: Relation) -> tuple[int, int]:
        """How many steps a record adds to the released count (0 without one), and the power of how
        far it moves everything that is released.

        Where n is not public, a record moves the count, in steps of 1/weight, as far as it can move
        the statistics: half of the budget goes to each. Where records may move between groups, one
        of them leaves a group and enters another, or changes within its own.
        """
        pair = self.power(lattice.sensitivity.pair)
        record = self.power(lattice.sensitivity.record)
        if lattice.room is not None:
            return self._reach_with_count(pair, record, self.power(lattice.room), neighbours)
        if neighbours == "replace_one":
            return 0, pair
        weight = 0 if lattice.adds_up_to_n else self.least_weight(record)
        alone = record + weight**self.order
        return weight, max(pair, 2 * alone) if neighbours == "move" else alone

    def _reach_with_count(
        self, pair: int, record: int, room: int, neighbours: Relation
    ) -> tuple[int, int]:
        """The same where records need not count, and those that do are counted whatever the
        neighbours: one that counts may be replaced by one that does not.

        The count weighs what it may, and where two records that count lie further apart than one of
        them from nothing, it fills the gap.
        """
        weight = self.most_weight(max(room, pair - record) if neighbours == "replace_one" else room)
        alone = record + weight**self.order
        reach = {"replace_one": max(pair, alone), "add_remove": alone, "move": max(pair, 2 * alone)}
        return weight, reach[neighbours]

    @final
    def spent(self, distance: FloatArray, scale: FloatArray) -> FloatArray:
        """What noise of that scale costs, of each number by itself."""
        return np.asarray((distance / scale) ** self.order / self.order)

    @final
    def apart_by_ones(self, numbers: int) -> float:
        """The distance between tables that differ by 1 in each of so many numbers."""
        return float(numbers ** (1 / self.order))

    @final
    def log_ratio(
        self, y: FloatArray, first: FloatArray, second: FloatArray, scale: float
    ) -> FloatArray:
        """log of the probability of y, (runs, d), around one point over that around another."""
        nearer = np.abs(y - second) ** self.order - np.abs(y - first) ** self.order
        return np.asarray(nearer.sum(axis=1) / (self.order * scale**self.order))


@final
@dataclass(frozen=True, slots=True)
class LaplaceMechanism(Mechanism):
    """Laplace noise for a distance in L1: pure epsilon = distance / scale."""

    currency: ClassVar[Currency] = "epsilon"
    order: ClassVar[Literal[1, 2]] = 1
    name: ClassVar[str] = "discrete Laplace"
    law: ClassVar[type[DiscreteLaplace]] = DiscreteLaplace

    def power(self, size: Size) -> int:
        return size.l1

    def distance(self, power: int) -> float:
        return power

    def least_weight(self, power: int) -> int:
        return power

    def most_weight(self, power: int) -> int:
        return power

    def smallest_scale(self, power: int, amount: Decimal) -> float:
        start = quotient(power, amount)
        opendp.check_scale(start)
        return opendp.smallest_scale(opendp.laplace, power, amount, start)

    def add_noise(self, sums: Sequence[int], scale: float) -> list[int]:
        return opendp.draw(opendp.laplace, sums, scale)

    def sd(self, scale: float) -> float:
        # 1/(sqrt(2) sinh(1/2 scale)); beyond 700 the sinh is no float
        return 1 / (math.sqrt(2) * math.sinh(min(0.5 / scale, 700.0)))

    def may_move(self, steps: float, records_per_person: int) -> bool:
        return steps % records_per_person == 0


@final
@dataclass(frozen=True, slots=True)
class GaussianMechanism(Mechanism):
    """Normal noise for a distance in L2: rho = distance^2 / 2 scale^2 of zCDP."""

    currency: ClassVar[Currency] = "rho"
    order: ClassVar[Literal[1, 2]] = 2
    name: ClassVar[str] = "discrete normal"
    law: ClassVar[type[DiscreteGaussian]] = DiscreteGaussian

    def power(self, size: Size) -> int:
        return size.l2_squared

    def distance(self, power: int) -> float:
        return math.sqrt(power)

    def least_weight(self, power: int) -> int:
        return math.isqrt(power - 1) + 1

    def most_weight(self, power: int) -> int:
        return math.isqrt(power)

    def smallest_scale(self, power: int, amount: Decimal) -> float:
        distance = math.sqrt(power) * opendp.ABOVE
        start = distance / math.sqrt(2 * float(amount))
        opendp.check_scale(start)
        return opendp.smallest_scale(opendp.gaussian, distance, amount, start)

    def add_noise(self, sums: Sequence[int], scale: float) -> list[int]:
        return opendp.draw(opendp.gaussian, sums, scale)

    def sd(self, scale: float) -> float:
        return scale  # that of the discrete normal is never larger than its parameter

    def may_move(self, steps: float, records_per_person: int) -> bool:
        return True  # its square is whole, which the float of a root no longer tells


MECHANISMS: dict[Currency, Mechanism] = {
    mechanism.currency: mechanism for mechanism in (LaplaceMechanism(), GaussianMechanism())
}
"""Which currency is paid to which mechanism: a cost says how it is spent."""


def mechanism_for(cost: Cost) -> Mechanism:
    """The mechanism that a cost in this currency pays for."""
    return MECHANISMS[cost.currency]
