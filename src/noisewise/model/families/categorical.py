"""One of K categories, each with its own probability."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, Parameter, StatisticKind
from noisewise.model.priors import Dirichlet, Prior

Label = str | int
MOST = 10**6
"""Categories: a release of more would not fit its file."""


@final
@dataclass(frozen=True, slots=True)
class Categorical(Family):
    """x is the index of one of K categories; t(x) is one-hot, so the statistic is all K counts.

    `categories` lists the labels (all text or all whole numbers), or is K for the labels 0, ..., K
    - 1. `other` is the category that takes every record that is unlisted or missing; a release
    needs it. eta = log(probabilities), A = 0 on the simplex.
    """

    kind: ClassVar[str] = "categorical"
    statistic_kind: ClassVar[StatisticKind] = "counts"
    integer: ClassVar = True
    bounded: ClassVar = True
    prior: ClassVar = Dirichlet
    categories: Sequence[Label] | int
    other: Label | None = None

    def __post_init__(self) -> None:
        if isinstance(self.categories, int) and not 2 <= self.categories <= MOST:
            raise ValueError(
                f"categories must be at least two, and at most {MOST}, got {self.categories}."
            )
        if isinstance(self.categories, str):
            raise ValueError(
                "categories must be a list of labels, such as ['a', 'b'], or their number."
            )
        labels = tuple(
            range(self.categories) if isinstance(self.categories, int) else self.categories
        )
        kinds = {type(label) for label in labels}
        if kinds not in ({str}, {int}):
            raise ValueError("categories must be all text or all whole numbers; write them alike.")
        if not 2 <= len(labels) <= MOST or len(set(labels)) < len(labels):
            raise ValueError(
                f"categories must be at least two different labels, got {len(labels)}."
            )
        if kinds == {int} and not all(abs(int(label)) <= 2**53 for label in labels):
            raise ValueError(
                "whole-number categories must lie within 2^53; write larger ones as text."
            )
        if self.other is not None:
            if self.other not in labels:
                raise ValueError(f"other must be one of the categories, got {self.other!r}.")
            # not an equal number of another type
            object.__setattr__(self, "other", labels[labels.index(self.other)])
        object.__setattr__(self, "categories", labels)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The K labels, in the order of the counts."""
        assert not isinstance(self.categories, int)
        return tuple(self.categories)

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        """The index of a category, from 0 to K - 1."""
        return (0.0, len(self.labels) - 1.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # type: ignore[override]
        """One probability for each category."""
        return (Parameter("probabilities", 0, 1, len(self.labels)),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return tuple(x == j for j in range(len(self.labels)))

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.log(theta)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        top = eta.max(-1)
        return top + xp.log(xp.exp(eta - top[..., None]).sum(-1))

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.zeros(np.shape(x))

    def mean(self, theta: FloatArray) -> FloatArray:
        return theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return np.eye(theta.shape[1]) * theta[:, None, :] - theta[:, :, None] * theta[:, None, :]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        below = np.arange(theta.shape[1]) <= np.asarray(x)[..., None]
        return np.asarray((below * theta[:, None, :]).sum(-1))

    def releasable(self) -> "Categorical":
        return Categorical(self.categories, other=self.labels[0])

    def weak_prior(self, bounds: Bounds | None) -> Prior:
        return Dirichlet([1.0] * len(self.labels))

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        edges = np.cumsum(theta, axis=1)[:, :-1]  # the last edge is 1
        uniform = rng.random((len(theta), n))
        return np.stack(
            [np.searchsorted(e, u, side="right") for e, u in zip(edges, uniform, strict=True)]
        ).astype(float)

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Dirichlet)
        return Dirichlet(np.asarray(prior.concentration) + statistic)
