"""Several columns as they are guessed to be: {"mean[age]": 50, "sd[age]": 18, "age": 0.5}.

Numbers are normal, factors independent of everything; the outcome of a regression is linear. What
nobody guesses: a number has its mean in the middle of its bounds and an sd of a quarter of their
distance (an outcome's errors as well), levels have even shares, correlations and coefficients are
0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray
from noisewise.model.columns import Factor, Number
from noisewise.model.families.moments import Moments
from noisewise.study.planning.truths import SUM, check_numbers

ONE_BY_ONE = 20_000
"""Records of a trial that are drawn one by one; the sums of more by the central limit theorem, from
the moments of so many.
"""
QUARTER = 0.5
"""The sd that nobody guessed, of half the distance of the bounds."""


@final
@dataclass(frozen=True, slots=True)
class Guess:
    """The values by name, all of them; an outcome's are of a regression on the other columns."""

    family: Moments
    outcome: Number | None
    values: tuple[tuple[str, float], ...]
    given: tuple[str, ...]

    @classmethod
    def of(cls, family: Moments, outcome: Number | None, truth: Mapping[str, float]) -> "Guess":
        """With what nobody guessed filled in; a name that is none is refused."""
        check_numbers(truth)
        values = {name: truth.get(name, usual) for name, usual in _usual(family, outcome).items()}
        strange = [name for name in truth if name not in values]
        if strange:
            raise UnsupportedCombination(
                f"truth has no {strange[0]!r} here; it may have: {', '.join(values)}."
            )
        for factor in family.factors:
            values |= _shares(factor, truth)
        for name, value in values.items():
            if (name.startswith("sd[") or name == "sigma") and not value > 0:
                raise UnsupportedCombination(f"the truth's {name} must be positive, got {value:g}.")
        guess = cls(family, outcome, tuple(values.items()), tuple(truth))
        guess.correlations()
        return guess

    @property
    def words(self) -> str:
        """What is taken for the truth, what was guessed first."""
        said = [f"{name} = {value:.4g}" for name, value in self.values if name in self.given]
        rest = [f"{name} = {value:.4g}" for name, value in self.values if name not in self.given]
        assumed = f"; not given, so taken to be: {', '.join(rest)}" if rest else ""
        return f"with {', '.join(said)}{assumed}" if said else assumed.removeprefix("; ")

    def value(self, name: str) -> float:
        """The guess of that name."""
        return dict(self.values)[name]

    @property
    def numbers(self) -> tuple[Number, ...]:
        """That are drawn jointly: all, but for an outcome."""
        return tuple(one for one in self.family.numeric if one != self.outcome)

    def shares(self, factor: Factor) -> FloatArray:
        """Of each level."""
        return np.array([self.value(name) for name in _share_names(factor)])

    def correlations(self) -> FloatArray:
        """The lower root of the numbers' correlation matrix."""
        names = [one.name for one in self.numbers]
        matrix = np.eye(len(names))
        for j, a in enumerate(names):
            for k in range(j + 1, len(names)):
                matrix[j, k] = matrix[k, j] = self.value(f"correlation[{a}, {names[k]}]")
        try:
            return np.asarray(np.linalg.cholesky(matrix), dtype=float)
        except np.linalg.LinAlgError:
            raise UnsupportedCombination(
                "no columns have these correlations together; bring them nearer to 0."
            ) from None

    def records(self, size: int, rng: np.random.Generator) -> FloatArray:
        """z of records that count, (records, numbers of the family)."""
        drawn: dict[str, FloatArray] = {}
        normal = rng.standard_normal((size, len(self.numbers))) @ self.correlations().T
        for j, one in enumerate(self.numbers):
            drawn[one.name] = (
                self.value(f"mean[{one.name}]") + self.value(f"sd[{one.name}]") * normal[:, j]
            )
        for factor in self.family.factors:
            level = rng.choice(len(factor.levels), size, p=self.shares(factor))
            for k, name in enumerate(factor.names, 1):
                drawn[name] = (level == k).astype(float)
        if self.outcome is not None:
            line = np.full(size, self.value("intercept"), dtype=float)
            for name in self.family.numbers:
                if name != self.outcome.name:
                    line += self.value(name) * drawn[name]
            drawn[self.outcome.name] = line + self.value("sigma") * rng.standard_normal(size)
        counts = np.ones(size, dtype=bool)
        for one in self.family.numeric:
            u = (drawn[one.name] - one.bounds.middle) / one.bounds.radius
            if one.bounds.outside == "redact":
                counts &= np.abs(u) <= 1
            drawn[one.name] = np.clip(u, -1, 1)
        return np.stack([drawn[name] for name in self.family.numbers], axis=1)[counts]

    def sums(self, n: int, trials: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """How many of n records count, (trials,), and the exact statistic, (trials, d)."""
        if n <= ONE_BY_ONE:
            found = [self.records(n, rng) for _ in range(trials)]
            kept = np.array([float(len(z)) for z in found])
            return kept, np.array([self._statistic(z).sum(axis=0) for z in found])
        one = self._statistic(self.records(ONE_BY_ONE, rng))
        share = len(one) / ONE_BY_ONE
        kept = rng.binomial(n, share, trials).astype(float)
        normal = rng.multivariate_normal(
            np.zeros(one.shape[1]), np.cov(one.T).reshape(one.shape[1], -1), trials, method="eigh"
        )
        return kept, kept[:, None] * one.mean(axis=0) + np.sqrt(kept)[:, None] * normal

    def _statistic(self, z: FloatArray) -> FloatArray:
        return np.stack(self.family.statistic(tuple(z.T)), axis=1)


def _usual(family: Moments, outcome: Number | None) -> dict[str, float]:
    """The values that nobody guesses, by name."""
    values: dict[str, float] = {}
    numbers = [one for one in family.numeric if one != outcome]
    if outcome is not None:
        values["intercept"] = outcome.bounds.middle
        values |= {name: 0.0 for name in family.numbers if name != outcome.name}
        values["sigma"] = QUARTER * outcome.bounds.radius
    for one in numbers:
        values[f"mean[{one.name}]"] = one.bounds.middle
        values[f"sd[{one.name}]"] = QUARTER * one.bounds.radius
    for j, one in enumerate(numbers):
        values |= {f"correlation[{one.name}, {other.name}]": 0.0 for other in numbers[j + 1 :]}
    for factor in family.factors:
        values |= dict.fromkeys(_share_names(factor), 1 / len(factor.levels))
    return values


def _share_names(factor: Factor) -> list[str]:
    return [f"share[{factor.name}][{level}]" for level in factor.levels]


def _shares(factor: Factor, truth: Mapping[str, float]) -> dict[str, float]:
    """Of each level by name; those that nobody guessed share evenly what is left."""
    names = _share_names(factor)
    told = {name: float(truth[name]) for name in names if name in truth}
    left = 1 - sum(told.values())
    rest = [name for name in names if name not in told]
    if not all(0 < value < 1 for value in told.values()) or (
        left <= 0 if rest else abs(left) > SUM
    ):
        raise UnsupportedCombination(
            f"the shares of {factor.name} must be positive and add up to 1; those given add up to "
            f"{1 - left:.6g}."
        )
    if not rest:
        return {name: value / (1 - left) for name, value in told.items()}
    return told | {name: left / len(rest) for name in rest}
