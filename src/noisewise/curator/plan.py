"""What a release will be, from public facts alone: refused here, it has read nothing and spent nothing."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import final

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism import sensitivity
from noisewise.mechanism.lattice import Lattice, lattice_for
from noisewise.mechanism.noise import DiscreteLaplace
from noisewise.mechanism.privacy import compose, exact_epsilon
from noisewise.mechanism.secure import laplace_scale
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A release's public settings, and the noise that follows from them."""

    family: Family
    bounds: Bounds | None
    lattice: Lattice
    epsilon: Decimal
    records_per_person: int
    sensitivity: int  # L1, in lattice steps, of one person
    scale: float  # of the noise, in lattice steps

    @classmethod
    def make(
        cls, family: Family, bounds: Bounds | None, missing: float | None, epsilon: Decimal, records_per_person: int
    ) -> "Plan":
        lattice = lattice_for(family, bounds, missing)
        delta = sensitivity.l1(lattice) * records_per_person
        return cls(family, bounds, lattice, epsilon, records_per_person, delta, laplace_scale(delta, epsilon))

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise in the statistic's units."""
        return DiscreteLaplace(tuple(self.scale * step for step in self.lattice.step), self.lattice.step)

    def noise_sd(self) -> list[float]:
        """Standard deviation of the noise on each statistic."""
        # Of the discrete Laplace: 1/(sqrt(2) sinh(step / 2 scale)) steps.
        return [step / (math.sqrt(2) * math.sinh(min(0.5 / self.scale, 700.0))) for step in self.lattice.step]

    def largest_sampling_sd(self, n: int) -> list[float]:
        """At most this much does each statistic vary by the chance of who the n records are: sqrt(n) * range / 2."""
        ranges = zip(self.lattice.ranges, self.lattice.step, strict=True)
        return [math.sqrt(n) * (hi - lo) * step / 2 for (lo, hi), step in ranges]


def check_settings(
    family: Family,
    bounds: Bounds | PrivateBounds | None,
    epsilon: object,
    records_per_person: int,
    neighbours: str,
    **texts: object,
) -> tuple[Decimal, Decimal | None]:
    """Refuse what no release can be made of. Returns the epsilons of the statistic and of private bounds."""
    if not isinstance(family, Family):
        raise UnsupportedCombination(
            f"family must be a family, such as families.Exponential() with its brackets, got {type(family).__name__}."
        )
    if isinstance(family, Categorical) and family.other is None:
        raise UnsupportedCombination("a categorical release needs other=, the category that takes unlisted and missing records.")
    if bounds is not None and not isinstance(bounds, (Bounds, PrivateBounds)):
        raise UnsupportedCombination("bounds must be Bounds(lower, upper, outside=...) or PrivateBounds(...).")
    if isinstance(records_per_person, bool) or not isinstance(records_per_person, int) or not 1 <= records_per_person <= 10**6:
        raise UnsupportedCombination("records_per_person must be a whole number from 1 to a million.")
    if neighbours != "replace_one":
        raise UnsupportedCombination("neighbours must be 'replace_one'.")
    for name, value in texts.items():
        if value is not None and not (isinstance(value, str) and value.isprintable()):
            raise UnsupportedCombination(f"{name} must be printable text.")
    bounds_epsilon = exact_epsilon(bounds.epsilon, "the epsilon of private bounds") if isinstance(bounds, PrivateBounds) else None
    return exact_epsilon(epsilon), bounds_epsilon  # type: ignore[arg-type]


def total(epsilon: Decimal, bounds_epsilon: Decimal | None) -> Decimal:
    """What the ledger is charged: both, in one transaction."""
    return epsilon if bounds_epsilon is None else compose(epsilon, bounds_epsilon)
