"""What a release will be, from public facts alone: refused here, it has read nothing and spent
nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import final

from noisewise.artifact import MOST_RECORDS, NEIGHBOURS
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism import sensitivity
from noisewise.mechanism.lattice import Lattice, lattice_for
from noisewise.mechanism.noise import DiscreteGaussian, DiscreteLaplace
from noisewise.mechanism.opendp import concentrated_within, gaussian_scale, laplace_scale
from noisewise.mechanism.privacy import (
    Cost,
    compose,
    concentrated,
    exact_delta,
    exact_epsilon,
    is_zero,
    pure,
)
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.families.categorical import Categorical, Label
from noisewise.model.family import Family

SIZES = ("public", "released")
MOST_WEIGHT = 2**26
"""Lattice steps of one record where n is not public: sums of 2^36 records stay below MOST_SUM."""


@final
@dataclass(frozen=True, slots=True)
class Groups:
    """The public groups that each get a release of their own."""

    by: str
    values: tuple[Label, ...]
    sizes: str
    """public: neighbours replace a record within its group. released: it may belong to another
    group, or to none.
    """

    @classmethod
    def checked(cls, by: object, groups: object, sizes: object, neighbours: str) -> "Groups | None":
        """None without `by`; refused where the three do not fit together."""
        if by is None:
            if groups is not None or sizes is not None:
                raise UnsupportedCombination(
                    "groups and sizes go with by, the column that says "
                    "which group a record belongs to."
                )
            return None
        if not (isinstance(by, str) and by.isprintable()):
            raise UnsupportedCombination("by must be the name of a column.")
        if isinstance(groups, str) or not isinstance(groups, Sequence) or not groups:
            raise UnsupportedCombination(
                "groups must list the public names of the groups; they "
                "are not read from the records."
            )
        for group in groups:
            if (
                isinstance(group, bool)
                or not isinstance(group, (str, int))
                or not str(group).isprintable()
            ):
                raise UnsupportedCombination(
                    "a group's name must be printable text or a whole number."
                )
        if sizes not in SIZES:
            raise UnsupportedCombination(
                "sizes must be 'public' (how many records a group has is known) or 'released' (it "
                "is not: a noisy count is)."
            )
        if sizes == "public" and neighbours == "add_remove":
            raise UnsupportedCombination(
                "with neighbours='add_remove' no size is public; use sizes='released'."
            )
        return cls(by, tuple(groups), str(sizes))


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A release's public settings, and the noise that follows from them."""

    family: Family
    bounds: Bounds | None
    lattice: Lattice
    cost: Cost
    records_per_person: int
    neighbours: str
    count_weight: int
    """How many lattice steps a record adds to the released count; 0 where no count is released."""
    sensitivity: float  # L1, or L2 for normal noise, in lattice steps, of one person
    scale: float  # of the noise, in lattice steps

    @classmethod
    def make(
        cls,
        family: Family,
        bounds: Bounds | None,
        missing: float | None,
        cost: Cost,
        records_per_person: int,
        neighbours: str,
    ) -> "Plan":
        lattice = lattice_for(family, bounds, missing)
        gaussian = cost.currency == "rho"
        weight, distance = sensitivity.of_release(lattice, neighbours, gaussian)
        if weight > MOST_WEIGHT:
            raise UnsupportedCombination(
                "the bounds lie too far from 0 for their width, where n is not public; release x "
                "less a public constant."
            )
        distance *= records_per_person ** (2 if gaussian else 1)
        scale = (gaussian_scale if gaussian else laplace_scale)(distance, cost.amount)
        moved = math.sqrt(distance) if gaussian else distance
        return cls(
            family, bounds, lattice, cost, records_per_person, neighbours, weight, moved, scale
        )

    @property
    def public(self) -> bool:
        """Whether n is public."""
        return self.neighbours == "replace_one"

    @property
    def unit(self) -> str:
        """What the cost is for: costs for different units do not add up. A record that moves
        between groups is replaced.
        """
        relation = "replace_one" if self.neighbours == "move" else self.neighbours
        return f"{relation}, {self.records_per_person} per person"

    @property
    def gaussian(self) -> bool:
        """Whether the noise is normal."""
        return self.cost.currency == "rho"

    @property
    def noise(self) -> DiscreteLaplace | DiscreteGaussian:
        """The noise in the statistic's units."""
        scale = tuple(self.scale * step for step in self.lattice.step)
        return (DiscreteGaussian if self.gaussian else DiscreteLaplace)(scale, self.lattice.step)

    @property
    def count_noise(self) -> DiscreteLaplace | DiscreteGaussian | None:
        """The noise of the released count; None where no count is released."""
        if not self.count_weight:
            return None
        return (DiscreteGaussian if self.gaussian else DiscreteLaplace)(
            self.scale / self.count_weight, 1 / self.count_weight
        )

    def noise_sd(self) -> list[float]:
        """Standard deviation of the noise on each statistic."""
        if self.gaussian:  # that of the discrete normal is never larger than its parameter
            return [self.scale * step for step in self.lattice.step]
        # Of the discrete Laplace: 1/(sqrt(2) sinh(step / 2 scale)) steps.
        return [
            step / (math.sqrt(2) * math.sinh(min(0.5 / self.scale, 700.0)))
            for step in self.lattice.step
        ]

    def largest_sampling_sd(self, n: int) -> list[float]:
        """At most this much does each statistic vary by the chance of who the n records are:
        sqrt(n) * range / 2.
        """
        ranges = zip(self.lattice.ranges, self.lattice.step, strict=True)
        return [math.sqrt(n) * (hi - lo) * step / 2 for (lo, hi), step in ranges]


def check_settings(
    family: Family,
    bounds: Bounds | PrivateBounds | None,
    records_per_person: int,
    neighbours: str,
    **texts: object,
) -> None:
    """Refuse what no release can be made of."""
    if not isinstance(family, Family):
        raise UnsupportedCombination(
            "family must be a family, such as families.Exponential() with its brackets, got "
            f"{type(family).__name__}."
        )
    if isinstance(family, Categorical) and family.other is None:
        raise UnsupportedCombination(
            "a categorical release needs other=, the category that takes "
            "unlisted and missing records."
        )
    if bounds is not None and not isinstance(bounds, (Bounds, PrivateBounds)):
        raise UnsupportedCombination(
            "bounds must be Bounds(lower, upper, outside=...) or PrivateBounds(...)."
        )
    if (
        isinstance(records_per_person, bool)
        or not isinstance(records_per_person, int)
        or not 1 <= records_per_person <= MOST_RECORDS
    ):
        raise UnsupportedCombination(
            "records_per_person must be a whole number from 1 to a million."
        )
    if neighbours not in NEIGHBOURS:
        raise UnsupportedCombination(f"neighbours must be one of: {', '.join(NEIGHBOURS)}.")
    for name, value in texts.items():
        if value is not None and not (isinstance(value, str) and value.isprintable()):
            raise UnsupportedCombination(f"{name} must be printable text.")


def asked_cost(epsilon: object, delta: object, rho: object) -> Cost:
    """The cost of the statistic: pure epsilon, or rho, given as itself or as the most that
    (epsilon, delta) allow.
    """
    if (epsilon is None) == (rho is None) or (delta is not None and epsilon is None):
        raise UnsupportedCombination(
            "say what the release may cost: epsilon, or epsilon and delta, or rho."
        )
    if rho is not None:
        return concentrated(rho)  # type: ignore[arg-type]
    if delta is not None:
        return concentrated_within(exact_epsilon(epsilon), exact_delta(delta))  # type: ignore[arg-type]
    return pure(epsilon)  # type: ignore[arg-type]


def asked_limit(epsilon: object, delta: object, rho: object) -> Cost:
    """What a dataset may cost in all: as the cost of a release, or nothing at all."""
    for currency, amount, others in (
        ("epsilon", epsilon, (delta, rho)),
        ("rho", rho, (delta, epsilon)),
    ):
        if others == (None, None) and is_zero(amount, currency):
            return Cost(currency, Decimal(0))  # type: ignore[arg-type]
    return asked_cost(epsilon, delta, rho)


def total(own: Cost, bounds_epsilon: Decimal | None) -> Cost:
    """What the ledger is charged: the statistic and private bounds, in one transaction and one
    currency.
    """
    if bounds_epsilon is None:
        return own
    return Cost(own.currency, compose(own.amount, pure(bounds_epsilon).counted_in(own.currency)))
