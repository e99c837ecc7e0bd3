"""Plans of several columns: means, sds and shares, or a regression among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.artifact import NoisyCount, Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.columns.joint import prior_for
from noisewise.inference.infer import infer_many
from noisewise.inference.regress import LinearModel, asked_model, regress_many, regression_prior
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import Cost, Relation
from noisewise.mechanism.products_sensitivity import LESS
from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import Linear, NormalInverseWishart
from noisewise.model.columns import Number
from noisewise.model.families.moments import Moments
from noisewise.study.noise_law import noise_law
from noisewise.study.planning.design import Design, Widths, chosen
from noisewise.study.planning.guessed_columns import Guess
from noisewise.study.planning.moments_without_noise import joint_widths, regression_widths
from noisewise.study.regressions import truth_of

TRIALS, DRAWS = (8, 16), 1000
"""Trials at first and at most, and draws of each: a second of one core gives about ten."""
TRIES = 20_000
"""Truths that are drawn from a prior until one lies within the bounds."""


@final
@dataclass(frozen=True)
class SeveralColumns(Design):
    """`asked` are the columns that the question is about, an outcome first, factors before numbers;
    the noise is that of all of `family`.
    """

    family: Moments
    asked: Moments
    model: LinearModel | None
    """Of a regression; None asks for means, sds and shares."""
    prior: Linear | NormalInverseWishart
    guess: Guess | None
    """None where every trial draws its truth from the prior."""
    of: tuple[str, ...]
    level: float
    neighbours: Relation = "replace_one"
    records_per_person: int = 1

    @property
    def trials(self) -> tuple[int, int]:
        return TRIALS

    @property
    def slow(self) -> bool:
        return True

    @property
    def names(self) -> tuple[str, ...]:
        return self.of

    @property
    def least_n(self) -> int:
        return len(self.asked.numbers) + 3

    @property
    def key(self) -> str:
        model = None if self.model is None else self.model.describe()
        guess = None if self.guess is None else self.guess.values
        return (
            f"{self.family.describe()} {model} ~ {self.prior} truth {guess} {self.neighbours} "
            f"{self.records_per_person} per person {self.of} {self.level}"
        )

    @property
    def about(self) -> str:
        what = "means, sds and shares"
        if self.model is not None:
            on = ", ".join(one.name for one in self.model.on) or "nothing"
            what = f"regression of {self.model.outcome.name} on {on}"
        if self.guess is None:
            return f"{what}; truths drawn from the prior {self.prior}"
        return f"{what} {self.guess.words}; prior {self.prior}"

    def simulate(self, n: int, cost: Cost, trials: int, rng: np.random.Generator) -> Widths:
        kept, exact = self._sums(n, trials, rng)
        releases = self._released(n, cost, kept, exact, rng)
        seed = int(rng.integers(2**63))
        if self.model is not None:
            assert isinstance(self.prior, Linear)
            on = [one.name for one in self.model.on]
            found = regress_many(
                releases, self.model.outcome.name, on, prior=self.prior, draws=DRAWS, seed=seed
            )
            private = [
                [_width(one.interval(name, self.level)) for name in self.of] for one in found
            ]
            public = [
                regression_widths(self.asked, self.model, self.prior, s, k, self.of, self.level)
                for s, k in zip(exact, kept, strict=True)
            ]
        else:
            assert isinstance(self.prior, NormalInverseWishart)
            joint = infer_many(releases, self.prior, draws=DRAWS, seed=seed)  # type: ignore[arg-type]
            private = [self._joint(one) for one in joint]
            public = [
                joint_widths(self.asked, self.prior, s, k, self.of, self.level)
                for s, k in zip(exact, kept, strict=True)
            ]
        return Widths(np.array(private), np.array(public))

    def _joint(self, posterior: "object") -> list[float]:
        """The widths of one posterior of several columns."""
        found: dict[str, float] = {}
        for name in posterior.names:  # type: ignore[attr-defined]
            low, high = posterior.interval(name, self.level)  # type: ignore[attr-defined]
            size = zip(self.asked.labels_of(name), np.ravel(high) - np.ravel(low), strict=True)
            found |= {f"{name}[{label}]": float(width) for label, width in size}
        return [found[name] for name in self.of]

    def _released(
        self, n: int, cost: Cost, kept: FloatArray, exact: FloatArray, rng: np.random.Generator
    ) -> list[Release]:
        """With the noise that a release of all columns has; one step serves every statistic."""
        lattice = lattice_for(Moments(self.family.columns, less=float(LESS)), None)
        normal, amount = cost.currency == "rho", float(cost.amount)
        law = noise_law(lattice, self.neighbours, self.records_per_person, normal, amount)
        noise = type(law.noise)(float(law.noise.scales[0]), float(law.noise.steps[0]))  # type: ignore[call-arg]
        noise = noise.broadcast(self.asked.dimension)
        assert law.count is not None
        y = exact + noise.simulate(rng, len(exact))
        counts = kept + law.count.simulate(rng, len(kept))[:, 0]
        public = n if self.neighbours == "replace_one" else None
        return [
            Release(
                self.asked,
                public,
                tuple(row.tolist()),
                noise,
                count=NoisyCount(float(count), law.count),
            )
            for row, count in zip(y, counts, strict=True)
        ]

    def _sums(self, n: int, trials: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        if self.guess is not None:
            return self.guess.sums(n, trials, rng)
        kept = np.full(trials, float(n))
        if isinstance(self.prior, Linear):
            drawn = [truth_of(self.asked, self.prior, n, rng)[2] for _ in range(trials)]
        else:
            drawn = [_joint_sums(self.asked, self.prior, n, rng) for _ in range(trials)]
        return kept, np.array(drawn)


def _width(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


def _joint_sums(
    family: Moments, prior: NormalInverseWishart, n: int, rng: np.random.Generator
) -> FloatArray:
    """The exact statistic of n records whose truth is from the prior; what puts a square outside
    its bounds is drawn anew, as a whole. A factor's products with others are 0: nobody asks.
    """
    from scipy import stats

    sums = dict.fromkeys(family.numbers, 0.0)
    products: dict[tuple[str, str], float] = {}
    names, q = [one.name for one in family.numeric], len(family.numeric)
    if q:
        centre, scale = prior.of(q)
        for _ in range(TRIES):
            covariance = np.atleast_2d(stats.invwishart.rvs(prior.degrees, scale, random_state=rng))
            mean = rng.multivariate_normal(centre, covariance / prior.strength)
            own = rng.multivariate_normal(mean, covariance / n)
            spread = np.atleast_2d(stats.wishart.rvs(n - 1, covariance, random_state=rng))
            second = spread + n * np.outer(own, own)
            if np.all(np.diag(second) <= n):
                break
        else:
            raise UnsupportedCombination(
                "the prior hardly ever puts all columns within their bounds; give a narrower one, "
                "or a truth."
            )
        sums |= dict(zip(names, n * own, strict=True))
        products = {(a, b): second[j, k] for j, a in enumerate(names) for k, b in enumerate(names)}
    for factor in family.factors:
        counts = rng.multinomial(n, rng.dirichlet(np.ones(len(factor.levels))))
        sums |= dict(zip(factor.names, counts[1:].astype(float), strict=True))
    numbers = family.numbers
    pairs = [products.get((numbers[j], numbers[k]), 0.0) for j, k in family.products]
    return np.array([*(sums[name] for name in numbers), *pairs])


def several_columns(
    family: Moments,
    outcome: str | None,
    on: Sequence[str] | None,
    truth: Mapping[str, float] | None,
    prior: object,
    of: str | Sequence[str] | None,
    level: float,
    neighbours: Relation,
    records_per_person: int,
) -> SeveralColumns:
    """The design that a person asks for; what makes no sense is refused."""
    lattice_for(Moments(family.columns, less=float(LESS)), None)
    model, asked = None, family
    if outcome is None:
        if on:
            raise UnsupportedCombination("on= (--on) goes with outcome= (--outcome).")
        own: Linear | NormalInverseWishart = prior_for("weak" if prior is None else prior, family)
        means = [f"mean[{one.name}]" for one in family.numeric]
        shares = [f"share[{one.name}][{level}]" for one in family.factors for level in one.levels]
        sds = [f"sd[{one.name}]" for one in family.numeric]
        known = dict.fromkeys((*means, *shares), True) | dict.fromkeys(sds, False)
    else:
        model = asked_model(family, outcome, on or [])
        own = regression_prior("weak" if prior is None else prior)
        own.sds(model.coefficients)
        ordered = sorted(model.on, key=lambda one: isinstance(one, Number))
        columns = {outcome: model.outcome.bounds}
        asked = Moments(columns | {one.name: _written(one) for one in ordered})
        known = dict.fromkeys(model.coefficients, True)
        known |= {"intercept": not model.coefficients, "sigma": False}
    guess = None if truth is None else Guess.of(asked, model and model.outcome, truth)
    wanted = chosen(of if of is None or isinstance(of, str) else list(of), known)
    return SeveralColumns(
        family, asked, model, own, guess, tuple(wanted), level, neighbours, records_per_person
    )


def _written(one: "object") -> object:
    return one.bounds if isinstance(one, Number) else list(one.levels)  # type: ignore[attr-defined]
