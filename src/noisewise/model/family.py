"""The exponential family p(x | eta) = h(x) exp(eta . t(x) - A(eta)): what a family supplies, and
what it gets for that.

A family is one small frozen dataclass. To *release* with it, `kind`, `support` and `statistic` are
enough. The other parts open the other doors (a posterior, calibration studies); a door whose part
is missing says which.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from inspect import isabstract
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.priors import Prior

StatisticKind = Literal["sums", "counts", "moments"]
"""What is released of many records: "sums" of numbers t(x), "counts" of how many of them fall in
each of several categories or, of several columns, "moments": sums, and sums of products.
"""
REGISTRY: dict[str, Callable[..., "Family"]] = {}
"""kind -> what makes a family of that kind from its fields."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a family: its name, the open interval it lives in, and how many numbers it
    is.
    """

    name: str
    lower: float
    upper: float
    size: int = 1


@dataclass(frozen=True, slots=True)
class IntervalMoments:
    """Of a record x conditioned on v <= x <= w: log P(v <= x <= w), and the mean and covariance of
    t(x).
    """

    log_probability: FloatArray  # (batch,)
    mean: FloatArray  # (batch, d)
    covariance: FloatArray  # (batch, d, d)


class Parametric(Protocol):
    """What a posterior needs to know of its parameters."""

    @property
    def kind(self) -> str:
        """Its name."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """In order."""

    def describe(self) -> dict[str, Any]:
        """As JSON."""

    def labels_of(self, parameter: str) -> Sequence[str | int]:
        """What each number of a parameter is called."""


class Family(ABC):
    """A model of one record with parameters theta of shape (batch, p) and d sufficient
    statistics.
    """

    kind: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    integer: ClassVar[bool] = False
    """Records are whole numbers; the lattice has step 1."""
    bounded: ClassVar[bool] = False
    """t(x) is bounded by itself, and bounds are neither needed nor taken."""
    polynomial: ClassVar[bool] = False
    """The statistics are x and x^2 of a location-scale family: released in standardised
    coordinates.
    """
    ratio: ClassVar[bool] = False
    """Of two positive parameters that move together the data tell their ratio best: grids are laid
    along it. Such a family has `whereabouts`.
    """
    statistic_kind: ClassVar[StatisticKind] = "sums"
    complete: ClassVar[bool] = True
    """Every record counts, a missing one as something; where not, how many do is not public."""
    support: ClassVar[tuple[float, float]]
    prior: ClassVar[type[Prior] | None] = None
    """The conjugate prior."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isabstract(cls):
            return
        for part in ("kind", "support"):
            if not hasattr(cls, part):
                raise TypeError(f"the family {cls.__name__} needs `{part}`; add it to the class.")
        if "kind" in cls.__dict__:
            known = REGISTRY.get(cls.kind)
            if known is not None and getattr(known, "__qualname__", "") != cls.__qualname__:
                raise TypeError(
                    f"a family of kind {cls.kind!r} exists already; give "
                    f"{cls.__name__} a kind of its own."
                )
            REGISTRY[cls.kind] = cls

    def describe(self) -> dict[str, Any]:
        """The family as JSON: its kind and its fields."""
        return {"kind": self.kind} | (asdict(self) if is_dataclass(self) else {})

    @property
    def derived(self) -> tuple[Derived, ...]:
        """Quantities that people use beside the parameters; each has a posterior too."""
        return ()

    def labels_of(self, parameter: str) -> Sequence[str | int]:
        """What each number of a parameter is called."""
        size = next(one.size for one in self.parameters if one.name == parameter)
        labels: Sequence[str | int] = getattr(self, "labels", range(size))
        return labels

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((type(self), repr(self.describe())))

    @property
    def dimension(self) -> int:
        """d, the number of statistics."""
        return len(self.statistic(np.full(1, np.nan), np))

    # What every family supplies.

    @abstractmethod
    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        """t(x), one column per statistic, in arithmetic and `xp.log`, `xp.exp`, `xp.sqrt`, `xp.abs`
        alone.
        """

    def statistics(self, x: Any) -> FloatArray:
        """t(x) as numbers, on a last axis of d."""
        columns = self.statistic(np.asarray(x), np)
        if len(columns) == 1:
            return np.asarray(columns[0], dtype=float)[..., None]
        return np.stack(np.broadcast_arrays(*columns), axis=-1).astype(float, copy=False)

    # What inference needs.

    def natural(self, theta: FloatArray) -> FloatArray:
        """eta(theta), shape (batch, d)."""
        raise self._missing("natural")

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        """A(eta) over the last axis of eta."""
        raise self._missing("log_partition")

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        """log h(x)."""
        raise self._missing("log_base_measure")

    def mean(self, theta: FloatArray) -> FloatArray:
        """E t(x), shape (batch, d)."""
        raise self._missing("mean")

    def covariance(self, theta: FloatArray) -> FloatArray:
        """Var t(x), shape (batch, d, d)."""
        raise self._missing("covariance")

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        """P(record <= x), broadcast over x of shape (batch, m) or (m,)."""
        raise self._missing("cdf")

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        """log P(lower <= x <= upper) for one eta of shape (d,), as a difference in the lighter
        tail.

        Written with `xp` and `special` (SciPy's names) alone, it can be differentiated (paper,
        Lemma 1).
        """
        raise self._missing("log_probability")

    def closed_moments(
        self, theta: FloatArray, lower: float, upper: float
    ) -> IntervalMoments | None:
        """The moments given lower <= x <= upper in closed form, or None where there is no such
        form.
        """
        return None

    def standardise(self, theta: FloatArray, bounds: Bounds) -> FloatArray:
        """theta of u = (x - centre) / radius, the record in units in which the bounds
        are -1 and 1.
        """
        raise self._missing("standardise")

    def modelled(self, bounds: Bounds | None) -> "tuple[Family, Bounds | None]":
        """The family, of the same parameters, that a transformed record follows, and its bounds:
        itself where the record is not transformed.
        """
        return self, bounds

    @property
    def own_bounds(self) -> Bounds | None:
        """The bounds where none are given: those of the support, if it has ends. None if there are
        none.
        """
        return None

    def middle_of(self, bounds: Bounds) -> float:
        """The value halfway between bounds, which a missing record counts as."""
        return bounds.middle

    def whereabouts(self, bounds: Bounds) -> tuple[tuple[float, float], tuple[float, float]]:
        """Of a `ratio` family the ranges of log(theta1 / theta2) and of log(theta2) that records
        within the bounds can tell.
        """
        raise self._missing("whereabouts")

    def weak_prior(self, bounds: Bounds | None) -> Prior | None:
        """A weakly informative prior from the bounds alone, for a first look: records mostly within
        them, their size open over two orders of magnitude (`weak`). None if there is none.
        """
        return None

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        """n independent records for each theta, shape (batch, n)."""
        raise self._missing("simulate")

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        """The posterior, a prior with hyperparameters of shape (batch,), given sums of t over n
        records, (batch, d).
        """
        raise self._missing("update")

    def log_density(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        """log p(x | theta), shape (batch, m), for x of shape (batch, m) or (m,)."""
        eta = self.natural(theta)  # (batch, d)
        t = self.statistics(x)  # (..., m, d)
        return np.asarray(
            (t * eta[:, None, :]).sum(-1)
            - self.log_partition(eta)[:, None]
            + self.log_base_measure(x)
        )

    def releasable(self) -> "Family":
        """With whatever a release needs and inference does not."""
        return self

    def check_bounds(self, bounds: Bounds | None) -> None:
        """Refuse bounds that cannot serve this family."""
        if self.bounded:
            if bounds is not None:
                raise UnsupportedCombination(
                    f"the {self.kind} family is bounded by itself; leave bounds out."
                )
            return
        if bounds is None:
            raise UnsupportedCombination(
                f"the {self.kind} family needs bounds: an interval of values known without looking "
                "at the records, "
                "such as bounds=Bounds(0, 60, outside='redact') or --bounds 0 60 --outside redact."
            )
        low, high = self.support
        if bounds.lower < low or bounds.upper > high:
            raise UnsupportedCombination(
                f"the {self.kind} family has values from {low:g} to {high:g} only; bounds "
                f"{bounds.lower:g} and "
                f"{bounds.upper:g} reach outside and would only add noise. Bring them inside."
            )
        if self.integer and np.floor(bounds.upper) - np.ceil(bounds.lower) < 1:
            raise UnsupportedCombination(
                f"the {self.kind} family counts in whole numbers; the bounds must hold at least "
                "two of them."
            )

    def _missing(self, part: str) -> UnsupportedCombination:
        return UnsupportedCombination(
            f"the {self.kind} family does not supply `{part}`, which "
            "this needs; add it to the class."
        )
