"""What a release cost and whom it protects, and whether that fits the rest of it."""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.mechanism.mechanisms import Mechanism, mechanism_for
from noisewise.mechanism.missing import DROPPED, DROPPED_LABELS
from noisewise.mechanism.privacy import (
    DIGITS_OF_TOTAL,
    MOST_RECORDS_PER_PERSON,
    NEIGHBOURS,
    Cost,
    Currency,
    compose,
    exact_delta,
    exact_epsilon,
    implied_epsilon,
)
from noisewise.mechanism.products import sizes_of
from noisewise.mechanism.products_sensitivity import LESS, exact_pair, exact_record
from noisewise.model.families.moments import Moments
from noisewise.model.families.table import Table

if TYPE_CHECKING:
    from noisewise.artifact.release import Release

WHERE = {None: "", "public": ", within its group", "released": ", of whatever group"}
"""What the unit of privacy says further where the sizes of groups are public, or released with
noise.
"""
_SPEND = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""The id of a spend: a UUID, as the ledger writes it."""
_DERIVED = 1e-4
"""How far, of itself, the epsilon that rho implies may lie from the one it was derived from: rho
has six digits, and the implied epsilon about five.
"""
_ROUNDING = 1e-9
"""How far apart, of themselves, two numbers may lie that are equal but for their rounding."""
_NO_LATTICE = "a lattice step is a power of two, and a record moves a statistic by one at least."
"""Said of steps that no lattice has."""
_OTHER_NEIGHBOURS = "the sensitivity is not that of these neighbours."
"""Said of a sensitivity that the declared neighbours cannot have."""


def person(records: int, kept: bool = False) -> str:
    """The unit of privacy, for so many records of one person: all that there are, or all that are
    kept.
    """
    if kept:
        return f"one person, of whose records at most {records} {_are(records)} kept"
    return "one record" if records == 1 else f"one person with at most {records} records"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _cost(currency: Currency, amount: str) -> Cost:
    return Cost(currency, exact_epsilon(amount, currency, digits=DIGITS_OF_TOTAL))


@dataclass(frozen=True, slots=True)
class Privacy:
    """What the release cost and whom it protects. Costs are decimal text, exact: of the statistic,
    and in total.

    With Laplace noise they are epsilon and total_epsilon; with normal noise rho and total_rho
    (zCDP), and epsilon and delta where rho was derived from them.
    """

    epsilon: str | None
    total_epsilon: str | None
    neighbours: str
    records_per_person: int
    unit: str
    sensitivity: tuple[float, ...]
    """How far one such unit can move the statistics together, in the units of each."""
    bounds_epsilon: str | None = None
    quantiles: tuple[float, float] | None = None
    spend: str | None = None
    delta: str | None = None
    rho: str | None = None
    total_rho: str | None = None
    count_sensitivity: float | None = None
    """How far such a unit can move the count, and the statistics as much again."""

    def __post_init__(self) -> None:
        self._check_total()
        if self.neighbours not in NEIGHBOURS:
            raise ValueError(f"neighbours must be one of: {', '.join(NEIGHBOURS)}.")
        if (
            isinstance(self.records_per_person, bool)
            or not 1 <= self.records_per_person <= MOST_RECORDS_PER_PERSON
        ):
            raise ValueError(
                f"records_per_person must be a whole number from 1 to {MOST_RECORDS_PER_PERSON}."
            )
        persons = [person(self.records_per_person, kept) for kept in (False, True)]
        if self.unit not in [one + where for one in persons for where in WHERE.values()]:
            raise ValueError(
                f"unit must be {persons[0]!r} or {persons[1]!r}, and with groups also where that "
                "may be."
            )
        moved = (
            *self.sensitivity,
            *(() if self.count_sensitivity is None else (self.count_sensitivity,)),
        )
        if not self.sensitivity or not all(0 < value < math.inf for value in moved):
            raise ValueError("sensitivity and count_sensitivity must be positive.")
        if (self.quantiles is None) != (self.bounds_epsilon is None):
            raise ValueError("private bounds have bounds_epsilon and quantiles.")
        if self.quantiles is not None and not (
            len(self.quantiles) == 2 and 0 <= self.quantiles[0] < self.quantiles[1] <= 1
        ):
            raise ValueError("quantiles must be two increasing numbers from 0 to 1.")
        if self.spend is not None and re.fullmatch(_SPEND, self.spend) is None:
            raise ValueError("spend must be the id that a ledger gave.")

    def _check_total(self) -> None:
        cost = self.cost
        amount, total = cost.amount, getattr(self, f"total_{cost.currency}")
        if self.bounds_epsilon is not None:
            bounds = _cost("epsilon", self.bounds_epsilon)
            amount = compose(amount, bounds.counted_in(cost.currency))
        if total is None or _cost(cost.currency, total).amount != amount:
            raise ValueError(
                f"total_{cost.currency} must be the sum of the statistic's cost and that of "
                "private bounds."
            )

    @property
    def cost(self) -> Cost:
        """Of the statistic by itself."""
        if self.total_rho is None:
            if self.epsilon is None or self.rho is not None or self.delta is not None:
                raise ValueError(
                    "a release that costs total_epsilon has an epsilon, and neither rho nor delta."
                )
            return _cost("epsilon", self.epsilon)
        if (
            self.rho is None
            or self.total_epsilon is not None
            or (self.epsilon is None) != (self.delta is None)
        ):
            raise ValueError(
                "a release costs rho and total_rho, derived from epsilon and delta or not, or "
                "epsilon and total_epsilon."
            )
        cost = _cost("rho", self.rho)
        if self.epsilon is not None and self.delta is not None:
            epsilon = exact_epsilon(self.epsilon)
            if not math.isclose(
                implied_epsilon(cost.amount, exact_delta(self.delta)), epsilon, rel_tol=_DERIVED
            ):
                raise ValueError("rho is not the one that epsilon and delta allow.")
        return cost

    @property
    def enforced(self) -> bool:
        """Whether the number of a person's records is kept to, and not only said."""
        return self.unit.startswith(person(self.records_per_person, kept=True))

    @property
    def person(self) -> str:
        """Whose records count as one."""
        return person(self.records_per_person, self.enforced)


@np.errstate(all="ignore")
def check_curated(release: "Release", privacy: Privacy) -> None:
    """Refuse what no curator's release can be: its parts tell of one another."""
    mechanism = mechanism_for(privacy.cost)
    if (release.count is None) != (privacy.count_sensitivity is None):
        raise ValueError("a noisy count has a count_sensitivity.")
    steps = _check_noise(release, privacy, mechanism)
    _check_lattice(release)
    _check_neighbours(release, privacy, mechanism, steps)
    if (release.coordinates == "standardised") != release.family.polynomial:
        raise ValueError("the coordinates are not those in which the family is released.")
    if privacy.bounds_epsilon is not None and (release.bounds is None or release.group is not None):
        raise ValueError("private bounds go with bounds, and not with groups.")
    if (release.column is None) == release.family.complete:
        raise ValueError("a release is of a column, unless its family names several.")
    if privacy.spend is not None and release.dataset is None:
        raise ValueError("a spend is of a dataset.")


def _check_noise(release: "Release", privacy: Privacy, mechanism: Mechanism) -> float:
    """The noise is what the cost needs for the sensitivity. Returns that, in lattice steps."""
    cost = privacy.cost
    laws = [(release.noise, privacy.sensitivity)]
    if release.count is not None and privacy.count_sensitivity is not None:
        laws.append((release.count.noise, (privacy.count_sensitivity,)))
    steps: list[float] = []
    for law, sensitivity in laws:
        if not isinstance(law, mechanism.law):
            raise ValueError(f"a cost in {cost.currency} goes with {mechanism.law.kind} noise.")
        scales, moved = law.scales, np.array(sensitivity)
        if scales.shape != moved.shape:
            raise ValueError("sensitivity must have one number for each statistic.")
        spent = mechanism.spent(moved, scales)
        if not np.allclose(spent, float(cost.amount), rtol=_ROUNDING, atol=0):
            raise ValueError(
                f"the noise is not the one that {cost} needs for the declared sensitivity."
            )
        steps += list(moved / law.steps)
    same = np.allclose(steps, steps[0], rtol=_ROUNDING, atol=0)
    if not same or not mechanism.may_move(steps[0], privacy.records_per_person):
        raise ValueError(
            "the sensitivity must be the same whole number of lattice steps for all statistics."
        )
    if steps[0] < 1 - _ROUNDING:
        raise ValueError(_NO_LATTICE)
    return steps[0]


def _check_lattice(release: "Release") -> None:
    """The statistics are whole numbers of steps, and a step is a power of two."""
    steps = release.noise.steps.tolist()
    if not all(math.frexp(step)[0] == 0.5 for step in steps):
        raise ValueError(_NO_LATTICE)
    if not all(value / step % 1 == 0 for value, step in zip(release.statistic, steps, strict=True)):
        raise ValueError("a statistic is not a whole number of lattice steps.")


def _check_neighbours(
    release: "Release", privacy: Privacy, mechanism: Mechanism, steps: float
) -> None:
    """Whether n is public, the unit of privacy and the sensitivity are those of the neighbours."""
    if isinstance(release.family, Table):
        _check_table(release, privacy, mechanism, steps)
        return
    sizes = None if release.group is None else "released" if release.n is None else "public"
    if privacy.unit != privacy.person + WHERE[sizes]:
        raise ValueError("the unit of privacy does not fit the group and n.")
    hidden = privacy.neighbours == "add_remove" or sizes == "released" or privacy.enforced
    dropped = release.group is None and not {DROPPED, DROPPED_LABELS}.isdisjoint(release.notes)
    if (release.n is None) != (hidden or dropped):
        raise ValueError(
            "n is public where neighbours replace one record (within its group) and all records "
            "count, and nowhere else."
        )
    if isinstance(release.family, Moments):
        _check_moments(release, release.family, privacy, mechanism)
        return
    if release.n is not None:
        return
    # A record that is added or removed moves its own group alone: its count by 1, and the
    # statistics as much again. One that may change groups moves two of them.
    counted = privacy.count_sensitivity
    reach = (steps if counted is None else counted) / privacy.records_per_person
    alone = mechanism.apart_by_ones(1 if counted is None else 2)
    if privacy.neighbours == "replace_one" and (dropped or privacy.enforced):
        # one that counts may be replaced by one that does not
        if reach < alone * (1 - _ROUNDING):
            raise ValueError(_OTHER_NEIGHBOURS)
        return
    if (reach > alone * (1 + _ROUNDING)) != (privacy.neighbours == "replace_one"):
        raise ValueError(_OTHER_NEIGHBOURS)


def _check_table(release: "Release", privacy: Privacy, mechanism: Mechanism, steps: float) -> None:
    """A table tells no n; a record that is replaced moves two cells, one that is added one."""
    replaced = privacy.neighbours == "replace_one"
    places: tuple[str | None, ...] = (None,)
    if release.group is not None:
        places = ("public", "released") if replaced else ("released",)
    if privacy.unit not in [privacy.person + WHERE[place] for place in places]:
        raise ValueError("the unit of privacy does not fit the group.")
    if release.n is not None:
        raise ValueError("a table does not tell n: records may fall in no cell.")
    reach = steps / privacy.records_per_person
    if not math.isclose(reach, mechanism.apart_by_ones(1 + replaced), rel_tol=_ROUNDING):
        raise ValueError(_OTHER_NEIGHBOURS)


def _check_moments(
    release: "Release", family: Moments, privacy: Privacy, mechanism: Mechanism
) -> None:
    """Moments have a count, and the sensitivity is no less than a record can move everything."""
    if privacy.count_sensitivity is None:
        raise ValueError("of several columns, the number of records that count has noise.")
    if family.less != LESS:
        raise ValueError(f"less must be {float(LESS)} in a release.")
    if len(set(release.noise.steps.tolist())) > 1:
        raise ValueError("the moments of several columns share one lattice step.")
    p, sizes = mechanism.order, sizes_of(family)
    moved = privacy.sensitivity[0] / privacy.records_per_person
    weight = privacy.sensitivity[0] / privacy.count_sensitivity
    alone = float(exact_record(sizes[0], sizes[1] + sizes[2])[p - 1]) + weight**p
    pair = float(exact_pair(*sizes)[p - 1])
    if privacy.neighbours == "add_remove":
        least = alone
    else:
        moves = release.n is None and release.group is not None
        least = max(pair, 2 * alone if moves else alone)
    if moved**p < least * (1 - _ROUNDING):
        raise ValueError(_OTHER_NEIGHBOURS)
