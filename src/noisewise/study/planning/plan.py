"""`plan`: how wide an interval will be for each n and epsilon, and which of them give a wanted
width. Nothing is read, and nothing is spent.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import numpy as np

from noisewise.artifact.privacy import WHERE, person
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.meaning import Meaning
from noisewise.mechanism.privacy import MOST_RECORDS_PER_PERSON, NEIGHBOURS, Cost, Relation
from noisewise.model.bounds import Bounds
from noisewise.model.families.moments import Moments
from noisewise.model.family import Family
from noisewise.study import engine
from noisewise.study.planning.design import Design, Widths
from noisewise.study.planning.one_column import one_column
from noisewise.study.planning.payment import Payment, payment
from noisewise.study.planning.search import crossing
from noisewise.study.planning.several_columns import several_columns

MOST_N = 10**7
"""Records up to which a wanted width is looked for."""
DIGITS = 3
"""Of an amount that answers a wanted width."""


@final
@dataclass(frozen=True)
class Plan:
    """Widths of intervals against n and cost; more of them are simulated as they are asked for."""

    design: Design
    payment: Payment
    n: tuple[int, ...]
    amounts: tuple[float, ...]
    level: float
    neighbours: str
    unit: str
    """Whom a cost protects, in the words of a release."""
    trials: int | None
    seed: int
    found: dict[tuple[int, float], Widths] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities whose widths are told, the main one first."""
        return self.design.names

    def table(self) -> list[dict[str, Any]]:
        """One row for each n, cost and quantity: the width of its interval (a median over simulated
        releases) with its Monte Carlo standard error, the width that the same records would give
        without noise, and how many times that it is, as in `compare`.
        """
        rows = []
        for n in self.n:
            for amount in self.amounts:
                found = self.found[n, amount]
                typical, error, public = found.typical(), found.error(), found.non_private()
                times, times_error = found.ratio()
                for j, name in enumerate(self.names):
                    rows.append(
                        {
                            "n": n,
                            self.payment.currency: amount,
                            "quantity": name,
                            "width": float(typical[j]),
                            "width_mcse": float(error[j]),
                            "non_private": float(public[j]),
                            "ratio": float(times[j]),
                            "ratio_mcse": float(times_error[j]),
                            "trials": len(found.private),
                        }
                    )
        return rows

    def width(self, n: int, amount: float, of: str | None = None) -> float:
        """The width of the interval of one quantity, the main one where none is named."""
        return float(self._at(n, amount).typical()[self._place(of)])

    def epsilon_for(self, width: float, n: int, of: str | None = None) -> float:
        """The epsilon (or rho) at which the interval of n records is as wide as that; refused where
        none is, for even without noise it is wider.
        """
        _check_width(width)
        place, unit = self._place(of), self.payment.symbol
        low, high = self.payment.limits
        public = float(self._at(n, max(self.amounts)).non_private()[place])
        found = None
        if public <= width:

            def at(amount: float) -> float:
                return self.width(n, amount, of)

            known = [a for (size, a) in self.found if size == n] or list(self.amounts)
            found = crossing(at, width, known, (low, high))
            public = at(high) if found is None else public
        if found is None:
            raise UnsupportedCombination(
                f"no {unit} gives an interval of {width:g} with n = {n}: even without noise it is "
                f"{public:.4g}; more records, or a wider interval."
            )
        return float(f"{found:.{DIGITS}g}")

    def n_for(self, width: float, epsilon: float, of: str | None = None) -> int:
        """The number of records with which that epsilon (or rho) gives an interval as wide as
        that; refused where more than MOST_N are needed.
        """
        _check_width(width)
        self.payment.cost(epsilon)

        def at(n: float) -> float:
            return self.width(round(n), epsilon, of)

        known = [float(size) for (size, a) in self.found if a == epsilon]
        limits = (float(self.design.least_n), float(MOST_N))
        found = crossing(at, width, known or [float(n) for n in self.n], limits)
        if found is None:
            raise UnsupportedCombination(
                f"even {MOST_N} records give an interval of {at(MOST_N):.4g} with "
                f"{self.payment.symbol} = {epsilon:g}; a larger one, or a wider interval."
            )
        return max(self.design.least_n, math.ceil(float(f"{found:.{DIGITS}g}")))

    def meaning(self, amount: float) -> Meaning:
        """What an epsilon (or rho) means for one person."""
        return Meaning(
            self.payment.cost(amount),
            self.unit,
            self.neighbours,
            self.payment.derived_from(amount),
        )

    def plot(self, axes: Any = None, unit: str = "") -> Any:
        """A figure of the main quantity's width against the cost, a line for each n; returns the
        matplotlib figure.
        """
        from noisewise.report.widths import plot_widths

        return plot_widths(self.table(), self.payment.currency, self.level, unit, axes)

    def __repr__(self) -> str:
        return f"Plan({self.design.about})"

    def _at(self, n: int, amount: float) -> Widths:
        if (n, amount) not in self.found:
            self.found.update(_simulated(self, [(n, amount)], 1, None))
        return self.found[n, amount]

    def _place(self, of: str | None) -> int:
        if of is None:
            return 0
        if of not in self.names:
            raise UnsupportedCombination(
                f"this plan has no width of {of!r}; it has: {', '.join(self.names)}."
            )
        return self.names.index(of)


def plan(
    *,
    family: Family,
    bounds: Bounds | None = None,
    n: int | Sequence[int],
    epsilon: float | Sequence[float] | None = None,
    rho: float | Sequence[float] | None = None,
    delta: float | str | None = None,
    truth: Mapping[str, float] | None = None,
    prior: Any = None,
    level: float = 0.9,
    outcome: str | None = None,
    on: Sequence[str] | None = None,
    of: str | Sequence[str] | None = None,
    neighbours: str = "replace_one",
    sizes: str | None = None,
    records_per_person: int = 1,
    trials: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Plan:
    """How wide intervals will be, before anything is spent: releases are simulated, for every n and
    epsilon (or rho), at a guessed `truth`, such as {"rate": 0.07} or {"mean": 14}, or with truths
    drawn from a `prior`, and inferred from. No record is read.

    Inference has the weak prior where a truth is given and no prior. `outcome` and `on` ask for a
    regression from families.Moments; `of` names the quantities to tell the widths of. With groups,
    n is each group's, and `sizes` says whether that is "public" or "released" with noise. `jobs`
    cores share the work where it is worth it.
    """
    if truth is None and prior is None:
        raise UnsupportedCombination(
            "a plan needs a guess: truth={'rate': 0.07} (--truth rate=0.07), or a prior to draw "
            "truths from."
        )
    if not isinstance(family, Family):
        raise UnsupportedCombination("family must be a family, such as families.Exponential().")
    if not 0 < level < 1:
        raise UnsupportedCombination(f"level must lie between 0 and 1, got {level}; such as 0.9.")
    relation = _relation(neighbours, sizes)
    if not 1 <= records_per_person <= MOST_RECORDS_PER_PERSON:
        raise UnsupportedCombination("records_per_person must be a whole number from 1.")
    paid = payment(epsilon, rho, delta)
    amounts = tuple(dict.fromkeys(map(float, _several(epsilon if rho is None else rho))))
    numbers = tuple(dict.fromkeys(int(size) for size in _several(n)))
    if not amounts or not numbers:
        raise UnsupportedCombination("a plan needs at least one n and one epsilon (or rho).")
    for amount in amounts:
        paid.cost(amount)
    if trials is not None and trials < 2:
        raise UnsupportedCombination(f"trials must be at least 2, got {trials}.")
    whom = (relation, records_per_person)
    if isinstance(family, Moments):
        if bounds is not None:
            family.check_bounds(bounds)
        design: Design = several_columns(family, outcome, on, truth, prior, of, level, *whom)
    elif outcome is not None or on:
        raise UnsupportedCombination(
            "a regression needs families.Moments: --moments bp:60:220 age:0:100 --outcome bp."
        )
    else:
        design = one_column(family, bounds, truth, prior, of, level, *whom)
    least = min(numbers)
    if not design.least_n <= least or max(numbers) > MOST_N:
        raise UnsupportedCombination(
            f"n must lie between {design.least_n} and {MOST_N} here, got {least}."
        )
    unit = person(records_per_person) + WHERE[sizes]
    made = Plan(design, paid, numbers, amounts, level, neighbours, unit, trials, seed, {})
    cells = [(size, amount) for size in numbers for amount in amounts]
    made.found.update(_simulated(made, cells, jobs, progress))
    return made


def _simulated(
    plan: Plan,
    cells: Sequence[tuple[int, float]],
    jobs: int,
    progress: Callable[[float], None] | None,
) -> dict[tuple[int, float], Widths]:
    """Each cell has a seed of its own: the numbers do not depend on what else is asked for."""
    chunks = {}
    for n, amount in cells:
        cost = plan.payment.cost(amount)
        key = f"plan {plan.design.key} n={n} {cost} trials {plan.trials}"
        chunks[n, amount] = engine.Chunk(key, _widths, (plan.design, n, cost, plan.trials))
    done = 0

    def arrived(chunk: engine.Chunk, result: engine.Result) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / len(cells))

    with TemporaryDirectory() as folder:
        workers = min(jobs, len(cells)) if plan.design.slow else 1  # starting them takes seconds
        results = engine.run(list(chunks.values()), Path(folder), plan.seed, workers, None, arrived)
    q = len(plan.names)
    out = {}
    for cell, chunk in chunks.items():
        held = {name: np.array(x).reshape(-1, q) for name, x in results[chunk.key].items()}
        out[cell] = Widths(held["private"], held["public"])
    return out


def _widths(
    design: Design, n: int, cost: Cost, trials: int | None, rng: np.random.Generator
) -> dict[str, Any]:
    found = design.widths(n, cost, trials, rng)
    return {"private": found.private.ravel(), "public": found.public.ravel()}


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (Sequence, np.ndarray)) else [given]


def _relation(neighbours: str, sizes: str | None) -> Relation:
    """Which tables are neighbours, groups considered."""
    if neighbours not in NEIGHBOURS:
        raise UnsupportedCombination(f"neighbours must be one of: {', '.join(NEIGHBOURS)}.")
    if sizes not in (None, "public", "released"):
        raise UnsupportedCombination("sizes must be public or released; leave it out if no groups.")
    if neighbours == "replace_one" and sizes == "released":
        return "move"
    if neighbours == "add_remove" and sizes == "public":
        raise UnsupportedCombination(
            "with neighbours add_remove the sizes of groups are not public; say sizes released."
        )
    return neighbours


def _check_width(width: float) -> None:
    if not (math.isfinite(width) and width > 0):
        raise UnsupportedCombination(f"a wanted width must be positive, got {width}.")
