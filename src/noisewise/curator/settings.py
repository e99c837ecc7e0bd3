"""The public settings of a release, in one value that is checked when it is made."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import final

from noisewise.artifact.privacy import WHERE, person
from noisewise.curator.costs import asked_cost
from noisewise.curator.groups import Groups, asked_groups
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.missing import DROP, Missing
from noisewise.mechanism.privacy import (
    MOST_RECORDS_PER_PERSON,
    NEIGHBOURS,
    Cost,
    Relation,
    compose,
    exact_delta,
    exact_epsilon,
    pure,
    text,
)
from noisewise.mechanism.products_sensitivity import LESS
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.families.categorical import Label
from noisewise.model.families.moments import Moments
from noisewise.model.families.table import Table
from noisewise.model.family import Family

Amount = float | str | Decimal
"""A cost as a person writes it: a number or, to the digit, text."""
StrPath = str | os.PathLike[str]
"""The path of a file."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `noisewise.release` is asked for, but for the records; its docstring tells what each
    setting means. Whether a family can be released with them is for the plan to find.
    """

    column: str | None = None
    family: Family
    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    ledger: StrPath | None = None
    dataset: str | None = None
    bounds: Bounds | PrivateBounds | None = None
    missing: Missing = None
    person: str | None = None
    records_per_person: int = 1
    neighbours: str = "replace_one"
    by: str | None = None
    groups: Sequence[Label] | None = None
    sizes: str | None = None
    description: str | None = None
    out: StrPath | None = None
    cost: Cost = field(init=False)
    """Of the statistic by itself."""
    bounds_epsilon: Decimal | None = field(init=False)
    """Of private bounds, where they are asked for."""
    grouping: Groups | None = field(init=False)
    """by, groups and sizes together."""

    def __post_init__(self) -> None:
        self._check_types()
        private = isinstance(self.bounds, PrivateBounds)
        derived: dict[str, object] = {
            "bounds_epsilon": self._private_cost(),
            "cost": asked_cost(self.epsilon, self.delta, self.rho),
            "grouping": asked_groups(self.by, self.groups, self.sizes, self.neighbours),
        }
        if self.bounds is None:
            derived["bounds"] = self.family.own_bounds
        if isinstance(self.family, Moments):
            derived["family"] = replace(self.family, less=float(LESS))
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if private and self.grouping is not None:
            raise UnsupportedCombination(
                "private bounds do not go with groups; release them once for all groups, then use "
                "them here."
            )
        if private and self.person is not None:
            raise UnsupportedCombination(
                "private bounds do not go with person=; give bounds that are known without looking."
            )
        sizes = None if self.grouping is None else self.grouping.sizes
        if self.some_do_not_count and sizes == "public":
            setting = "person=" if self.person is not None else "missing='drop'"
            raise UnsupportedCombination(
                f"with {setting} it is not public how many records of a group count; say "
                "sizes='released' (--sizes released)."
            )

    def _check_types(self) -> None:
        """Refuse what no release can be made of."""
        for name, path in (("ledger", self.ledger), ("out", self.out)):
            if not (path is None or isinstance(path, (str, os.PathLike))):
                raise UnsupportedCombination(
                    f"{name} must be a path or None, got {type(path).__name__}."
                )
        if not isinstance(self.family, Family):
            raise UnsupportedCombination(
                "family must be a family, such as families.Exponential() with its brackets, got "
                f"{type(self.family).__name__}."
            )
        if not (self.bounds is None or isinstance(self.bounds, (Bounds, PrivateBounds))):
            raise UnsupportedCombination(
                "bounds must be Bounds(lower, upper, outside=...) or PrivateBounds(...)."
            )
        self._check_column()
        k = self.records_per_person
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_RECORDS_PER_PERSON:
            raise UnsupportedCombination(
                "records_per_person must be a whole number from 1 to a million."
            )
        if self.neighbours not in NEIGHBOURS:
            raise UnsupportedCombination(f"neighbours must be one of: {', '.join(NEIGHBOURS)}.")
        texts = (
            ("column", self.column),
            ("dataset", self.dataset),
            ("description", self.description),
            ("person", self.person),
        )
        for name, value in texts:
            if value is not None and not (isinstance(value, str) and value.isprintable()):
                raise UnsupportedCombination(f"{name} must be printable text.")

    def _check_column(self) -> None:
        """Refuse no column, or one beside those that the family names."""
        if self.family.complete:
            if self.column is None:
                raise UnsupportedCombination(
                    "say which column is released: column= in Python, --column NAME."
                )
            return
        kind = self.family.kind
        for name, given in (
            ("column", self.column),
            ("bounds", self.bounds),
            ("missing", self.missing),
        ):
            if given is not None:
                raise UnsupportedCombination(
                    f"a release of {kind} names its columns, each with its bounds or levels; leave "
                    f"{name}= (--{name}) out."
                )

    def _private_cost(self) -> Decimal | None:
        if not isinstance(self.bounds, PrivateBounds):
            return None
        return exact_epsilon(self.bounds.epsilon, "the epsilon of private bounds")

    @property
    def total(self) -> Cost:
        """What the ledger is charged: the statistic and private bounds, in one transaction and one
        currency.
        """
        if self.bounds_epsilon is None:
            return self.cost
        currency = self.cost.currency
        bounds = pure(self.bounds_epsilon).counted_in(currency)
        return Cost(currency, compose(self.cost.amount, bounds))

    @property
    def derived_from(self) -> tuple[str, str] | None:
        """The epsilon and delta that rho was derived from, if it was."""
        if self.epsilon is None or self.delta is None:
            return None
        return text(exact_epsilon(self.epsilon)), text(exact_delta(self.delta))

    @property
    def widest_bounds(self) -> Bounds | None:
        """The given bounds, or the whole public range that private ones are chosen from."""
        bounds = self.bounds
        if isinstance(bounds, PrivateBounds):
            return Bounds(bounds.lower, bounds.upper, outside=bounds.outside)
        return bounds

    @property
    def relation(self) -> Relation:
        """Which tables are neighbours, groups considered."""
        if self.neighbours == "add_remove":
            return "add_remove"
        released = self.grouping is not None and self.grouping.sizes == "released"
        return "move" if released else "replace_one"

    @property
    def some_do_not_count(self) -> bool:
        """Whether records are left out by what they say: those without a value, or a person's
        records beyond the most that are kept.
        """
        return self.missing == DROP or self.person is not None

    @property
    def group_names(self) -> tuple[Label | None, ...]:
        """Of each release; without groups there is one, of all records."""
        return (None,) if self.grouping is None else self.grouping.values

    @property
    def unit(self) -> str:
        """What the cost is for: costs for different units do not add up. A record that moves
        between groups is replaced.
        """
        if self.person is not None:  # whoever has whatever number of records
            return f"{self.neighbours}, persons by {self.person!r}"
        return f"{self.neighbours}, {self.records_per_person} per person"

    @property
    def protected(self) -> str:
        """Who is protected, for people."""
        sizes = None if self.grouping is None else self.grouping.sizes
        return person(self.records_per_person, self.person is not None) + WHERE[sizes]

    @property
    def purpose(self) -> str:
        """What the ledger's history says of the release."""
        groups = self.grouping
        where = "" if groups is None else f" by {groups.by!r} in {len(groups.values)} groups"
        return f"release of {self.what}{where} ({self.family.kind}, {self.unit})"

    @property
    def what(self) -> str:
        """The names of what is released."""
        if isinstance(self.family, Moments | Table):
            return ", ".join(repr(one.name) for one in self.family.parts)
        return repr(self.column)

    @property
    def named(self) -> str:
        """The same in a sentence."""
        return f"{'column' if self.family.complete else 'columns'} {self.what}"
