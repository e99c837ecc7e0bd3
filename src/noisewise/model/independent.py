"""Any prior: a distribution of SciPy's for each parameter, independent of each other.

SciPy's distributions take a while to import, so that they are loaded only where one is named.
"""

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.prior import Prior

if TYPE_CHECKING:
    from noisewise.model.family import Parameter

OUTSIDE = 1e-9
"""So much of a prior's mass may lie where the parameter cannot be, and is left out: a normal prior
that keeps six sds away from 0 may be one of a rate.
"""
FAR = (20.0, 30.0)
"""So far out, in the log of the distance from the middle, the power of a tail is read off."""


@final
class Independent(Prior):
    """theta_j ~ a frozen continuous distribution of `scipy.stats`, by the parameters' names:
    `Independent(rate=scipy.stats.lognorm(s=1, scale=0.1))`.
    """

    kind: ClassVar[str] = "independent"
    positive: ClassVar = ()
    distributions: dict[str, Any]

    def __init__(self, **distributions: Any) -> None:
        if not distributions:
            raise UnsupportedCombination(
                "an independent prior needs a distribution for each parameter, such as "
                "priors.Independent(rate=scipy.stats.lognorm(s=1, scale=0.1))."
            )
        middles = tuple(_check(name, one) for name, one in distributions.items())
        self.distributions = dict(distributions)
        self._text = ", ".join(f"{name} ~ {_text(one)}" for name, one in distributions.items())
        # a distribution of one's own may have another's name
        self._key = self._text, middles

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {name: _text(one) for name, one in self.distributions.items()}

    @property
    def supports(self) -> tuple[tuple[float, float], ...]:
        """Where each parameter may lie."""
        return tuple(
            (float(low), float(high))
            for low, high in (one.support() for one in self.distributions.values())
        )

    def __str__(self) -> str:
        """As it is typed on the command line."""
        return self._text

    def __repr__(self) -> str:
        return f"Independent({self._text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Independent) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def of(self, kind: str, parameters: "Sequence[Parameter]") -> "Independent":
        """The same in the order of a family's parameters; refused where it is not one of them, or
        has mass where they cannot be.
        """
        wanted = [parameter.name for parameter in parameters]
        example = ", ".join(suggestion(parameter) for parameter in parameters)
        if sorted(wanted) != sorted(self.distributions):
            raise UnsupportedCombination(
                f"the {kind} family has {' and '.join(wanted)}, and needs a distribution for each "
                f"and nothing else, such as {example!r}; got {' and '.join(self.distributions)}."
            )
        for parameter in parameters:
            one = self.distributions[parameter.name]
            below, above = float(one.cdf(parameter.lower)), float(one.sf(parameter.upper))
            if max(below, above) > OUTSIDE:
                side, edge = (
                    ("below", parameter.lower) if below >= above else ("above", parameter.upper)
                )
                raise UnsupportedCombination(
                    f"{parameter.name} ~ {_text(one)} has {max(below, above):.2g} of its mass "
                    f"{side} {edge:g}, where no {parameter.name} is; take one that lies between "
                    f"{parameter.lower:g} and {parameter.upper:g}, such as "
                    f"{suggestion(parameter)!r}."
                )
        return Independent(**{name: self.distributions[name] for name in wanted})

    def log_density(self, theta: FloatArray) -> FloatArray:
        parts = [one.logpdf(theta[:, j]) for j, one in enumerate(self.distributions.values())]
        return np.asarray(sum(parts), dtype=float)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        drawn = [one.rvs(size=size, random_state=rng) for one in self.distributions.values()]
        return np.stack(drawn, axis=1).astype(float)

    def tail_index(self, parameter: int) -> float:
        """The power with which the density of a parameter falls far out; 1, which says nothing,
        where it cannot be told.
        """
        one = list(self.distributions.values())[parameter]
        low, middle, high = one.ppf([0.25, 0.5, 0.75])
        found = [np.inf]
        for sign, end in zip((-1.0, 1.0), one.support(), strict=True):
            if np.isinf(end):
                at = middle + sign * (high - low) * np.exp(FAR)
                with np.errstate(all="ignore"):
                    near, far = one.logpdf(at)
                found.append(float(np.nan_to_num((near - far) / (FAR[1] - FAR[0]), posinf=1.0)))
        return 1.0 if np.isinf(min(found)) else max(min(found), 1.0)


@final
class OneEach(Prior):
    """A prior of its own for each row of theta."""

    positive: ClassVar = ()

    def __init__(self, priors: Sequence[Prior], row: IntArray) -> None:
        self._priors, self._row = priors, row

    def log_density(self, theta: FloatArray) -> FloatArray:
        out = np.empty(len(theta))
        for k, rows in self._rows():
            out[rows] = self._priors[k].log_density(theta[rows])
        return out

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        parts = [(rows, self._priors[k].draw(rng, rows.size)) for k, rows in self._rows()]
        out = np.empty((size, parts[0][1].shape[1]))
        for rows, drawn in parts:
            out[rows] = drawn
        return out

    def _rows(self) -> list[tuple[int, IntArray]]:
        return [(int(k), np.flatnonzero(self._row == k)) for k in np.unique(self._row)]


def suggestion(parameter: "Parameter") -> str:
    """A distribution that serves a parameter, as it is typed."""
    if np.isinf(parameter.lower):
        return f"{parameter.name} ~ norm(loc=0, scale=10)"
    if np.isfinite(parameter.upper):
        return f"{parameter.name} ~ beta(a=2, b=3)"
    return f"{parameter.name} ~ lognorm(s=1, scale=0.1)"


def _check(name: str, one: Any) -> tuple[float, ...]:
    """Refuse what is no frozen proper distribution of one real number. Returns its quartiles."""
    from scipy.stats import rv_continuous

    if isinstance(one, rv_continuous):
        raise UnsupportedCombination(
            f"{name} needs a distribution with its settings, such as "
            f"scipy.stats.{one.name}({', '.join(_settings(one))}), not scipy.stats.{one.name}."
        )
    if not isinstance(getattr(one, "dist", None), rv_continuous):
        raise UnsupportedCombination(
            f"{name} needs a continuous distribution of SciPy's, such as "
            f"scipy.stats.lognorm(s=1, scale=0.1), got {type(one).__name__}."
        )
    given = [*one.args, *one.kwds.values()]
    if not all(isinstance(value, Real) and np.isfinite(float(value)) for value in given):
        raise UnsupportedCombination(
            f"the settings of {name} ~ {one.dist.name} must be finite numbers, one each."
        )
    with np.errstate(all="ignore"):
        quartiles = np.asarray(one.ppf([0.25, 0.5, 0.75]), dtype=float)
        height = np.asarray(one.logpdf(quartiles), dtype=float)
    if not (np.isfinite(quartiles).all() and quartiles[0] < quartiles[2]) or np.isnan(height).any():
        raise UnsupportedCombination(
            f"{name} ~ {_text(one)} is no proper distribution; check its settings "
            f"({', '.join(_settings(one.dist))})."
        )
    return tuple(quartiles.tolist())


def _settings(distribution: Any) -> list[str]:
    shapes = distribution.shapes.split(", ") if distribution.shapes else []
    return [f"{name}=..." for name in (*shapes, "loc", "scale")]


def _text(frozen: Any) -> str:
    """Such as lognorm(s=1, scale=0.1)."""
    numbers = [_number(value) for value in frozen.args]
    named = [f"{name}={_number(value)}" for name, value in frozen.kwds.items()]
    return f"{frozen.dist.name}({', '.join([*numbers, *named])})"


def _number(value: Any) -> str:
    try:
        return repr(float(value)).removesuffix(".0")
    except (TypeError, ValueError):
        return "..."
