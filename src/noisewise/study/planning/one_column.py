"""Plans of one column, and of tables of counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.infer import infer_many
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.problem import check_prior, example
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import Cost, Relation
from noisewise.model import notation
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.independent import Independent
from noisewise.model.priors import Prior
from noisewise.report.units import rounded
from noisewise.study.planning import without_noise
from noisewise.study.planning.design import Design, Widths, chosen
from noisewise.study.planning.truths import quantities, theta_of
from noisewise.study.trials import ONE_BY_ONE, Setting, simulate

TRIALS, TRIALS_OF_TWO = (32, 128), (8, 16)
"""At first and at most, of one parameter, and of two, whose posteriors take up to a second."""
MOST_CATEGORIES = 12
"""Whose widths are told where nobody asks for certain ones."""


@final
@dataclass(frozen=True)
class OneColumn(Design):
    """A family within bounds."""

    family: Family
    bounds: Bounds | None
    prior: Prior
    truth: FloatArray | None
    """theta, (p,); None where every trial draws its own from the prior."""
    of: tuple[str, ...]
    level: float
    neighbours: Relation = "replace_one"
    records_per_person: int = 1

    @property
    def trials(self) -> tuple[int, int]:
        return TRIALS if len(self.family.parameters) == 1 else TRIALS_OF_TWO

    @property
    def slow(self) -> bool:
        return len(self.family.parameters) > 1

    @property
    def names(self) -> tuple[str, ...]:
        return self.of

    @property
    def least_n(self) -> int:
        return 1

    @property
    def key(self) -> str:
        truth = None if self.truth is None else self.truth.tolist()
        return f"{self._setting(1, 1.0, False).describe()} truth {truth} {self.of} {self.level}"

    @property
    def about(self) -> str:
        if self.truth is None:
            return f"{self.family.kind}; truths drawn from the prior {rounded(self.prior)}"
        labels: Sequence[object] = [one.name for one in self.family.parameters]
        if self._categories:
            labels = self.family.labels_of(self.family.parameters[0].name)
        told = ", ".join(f"{a} = {b:.4g}" for a, b in zip(labels, self.truth, strict=True))
        return f"{self.family.kind} with {told}; prior {rounded(self.prior)}"

    @property
    def _categories(self) -> bool:
        return self.family.statistic_kind == "counts" and self.family.parameters[0].size > 1

    def _setting(self, n: int, amount: float, normal: bool) -> Setting:
        return Setting(
            self.family,
            self.prior,
            self.bounds,
            n,
            amount,
            normal=normal,
            neighbours=self.neighbours,
            records_per_person=self.records_per_person,
        )

    def simulate(self, n: int, cost: Cost, trials: int, rng: np.random.Generator) -> Widths:
        return self.simulate_all(n, [cost], trials, rng)[0]

    def simulate_all(
        self, n: int, costs: Sequence[Cost], trials: int, rng: np.random.Generator
    ) -> list[Widths]:
        """The same at several costs, all posteriors in one batch."""
        family, samples, sums = self.family, [], []
        full = n <= ONE_BY_ONE or family.bounded
        for cost in costs:
            setting = self._setting(n, float(cost.amount), cost.currency == "rho")
            sample = simulate(setting, trials, rng, full=full, truth=self.truth)
            samples.append(sample)
            sums.append(sample.full if full else _many_sums(family, sample.theta, n, rng))
        releases = [one for sample in samples for one in sample.releases]
        found = infer_many(releases, self.prior, seed=int(rng.integers(2**63)))
        theta = np.concatenate([sample.theta for sample in samples])
        widths = self._widths(found, np.concatenate(sums), theta, n)
        cuts = range(0, len(costs) * trials, trials)
        return [Widths(widths.private[a : a + trials], widths.public[a : a + trials]) for a in cuts]

    def _widths(self, found: Posteriors, sums: FloatArray, theta: FloatArray, n: int) -> Widths:
        family = self.family
        if self._categories:
            (name,) = (one.name for one in family.parameters)
            ends = np.array([one.interval(name, self.level) for one in found])  # (trials, 2, k)
            labels = titles(family)
            places = [labels.index(title) for title in self.of]
            private = (ends[:, 1] - ends[:, 0])[:, places]
            public = self._without_noise(sums, n, theta)[:, places]
        else:
            ends = np.array([[one.interval(name, self.level) for name in self.of] for one in found])
            private = ends[..., 1] - ends[..., 0]
            public = self._without_noise(sums, n, theta)
        return Widths(private, public)

    def _without_noise(self, sums: FloatArray, n: int, theta: FloatArray) -> FloatArray:
        setting = self._setting(n, 1.0, False)  # which has an independent prior in order
        return without_noise.widths(self.family, setting.prior, sums, n, theta, self.of, self.level)


def _many_sums(family: Family, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Sums of t(x) over many records, by the central limit theorem."""
    root = np.linalg.cholesky(family.covariance(theta))
    normal = rng.standard_normal((len(theta), family.dimension))
    return np.asarray(n * family.mean(theta) + np.sqrt(n) * np.einsum("tij,tj->ti", root, normal))


def titles(family: Family) -> list[str]:
    """What the numbers of a categorical are called in a summary."""
    (parameter,) = family.parameters
    return [f"{parameter.name}[{label}]" for label in family.labels_of(parameter.name)]


def one_column(
    family: Family,
    bounds: Bounds | None,
    truth: Mapping[str, float] | None,
    prior: Prior | str | None,
    of: str | Sequence[str] | None,
    level: float,
    neighbours: Relation,
    records_per_person: int,
) -> OneColumn:
    """The design that a person asks for; what makes no sense is refused."""
    bounds = family.own_bounds if bounds is None else bounds
    family.check_bounds(bounds)
    lattice_for(family.releasable(), bounds)
    own = notation.prior(prior) if isinstance(prior, str) and prior.strip() != "weak" else prior
    if own is None or isinstance(own, str):
        own = family.weak_prior(bounds)
        if own is None:
            raise UnsupportedCombination(
                f"there is no weak prior for the {family.kind} family; give one, such as "
                f"prior={example(family)!r}."
            )
    if isinstance(own, Independent) and family.statistic_kind == "sums":
        own = own.of(family.kind, family.parameters)
    check_prior(family, own)
    if family.statistic_kind == "counts" and family.parameters[0].size > 1:
        known = {title: j < MOST_CATEGORIES for j, title in enumerate(titles(family))}
        if of == family.parameters[0].name:
            of = list(known)
    else:
        names = quantities(family)
        usual = _usual(family)
        known = {name: name == usual for name in names}
    theta = None if truth is None else theta_of(family, truth)
    wanted = tuple(chosen(of if of is None or isinstance(of, str) else list(of), known))
    return OneColumn(family, bounds, own, theta, wanted, level, neighbours, records_per_person)


def _usual(family: Family) -> str:
    """The quantity that people mean: the mean, else a quantity beside the parameters, else the
    first of these.
    """
    names = quantities(family)
    if "mean" in names:
        return "mean"
    return family.derived[0].name if family.derived else names[0]
