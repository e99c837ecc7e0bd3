"""What `infer` returns: means, sds, quantiles, intervals and draws of each parameter, and how far
to trust them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.beyond import expected_beyond
from noisewise.inference.certificate import Certificate
from noisewise.inference.leaning import leaning
from noisewise.inference.missing import said_of_missing_in
from noisewise.inference.persons import said_of_persons
from noisewise.inference.quantities import FromDraws, Quantity
from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Parametric

CHAINS = 4
"""As which independent draws are handed on: ArviZ compares chains, and wants four."""


class Posterior:
    """The posterior of a family's parameters given a release. Draws are made when first
    asked for.
    """

    def __init__(
        self,
        family: Parametric,
        solution: Solution,
        method: str,
        draws: int,
        seed: Callable[[], np.random.SeedSequence],
        instead_of: str | None = None,
        releases: "Sequence[Release]" = (),
        prior: object = None,
    ) -> None:
        self.family, self.method = family, method
        self.releases = tuple(releases)
        """What it was inferred from."""
        self.prior = prior
        """The prior of the parameters; None where a population stands for it."""
        self.solution, self._size = solution, draws
        self._seed, self._instead_of = seed, instead_of
        self._quantities: dict[str, Quantity] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(parameter.name for parameter in self.family.parameters)

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of quantities that people use beside the parameters, such as the sd beside the
        variance: they have a mean, an interval and so on like these.
        """
        return tuple(self._derived)

    @cached_property
    def _derived(self) -> dict[str, Derived]:
        return {one.name: one for one in getattr(self.family, "derived", ())}

    def derived_of(self, name: str) -> Derived:
        """What a derived quantity is; refused if there is none of that name."""
        if name not in self._derived:
            self._index(name)
        return self._derived[name]

    def _quantity(self, name: str) -> Quantity | None:
        """A derived quantity; None if the name is a parameter's, or nobody's."""
        if name not in self._quantities and name in self._derived:
            self._quantities[name] = self.solution.derived(
                self._derived[name], self.family.parameters
            )
        return self._quantities.get(name)

    @cached_property
    def draws(self) -> dict[str, FloatArray]:
        """Draws of each parameter, (draws,) or (draws, k); those of one row belong together."""
        return self.draw(self._size, np.random.default_rng(self._seed()))

    def mean(self, name: str) -> Any:
        """Posterior mean: a float, or (k,); None where the tail is so heavy that there is none."""
        if (own := self._quantity(name)) is not None:
            return existing(own.moments()[0])
        return self._out(name, self.solution.moments(self._index(name))[0])

    def sd(self, name: str) -> Any:
        """Posterior standard deviation: a float, or (k,); None where the tail is so heavy that
        there is none.
        """
        if (own := self._quantity(name)) is not None:
            return existing(own.moments()[1])
        return self._out(name, self.solution.moments(self._index(name))[1])

    def quantile(self, name: str, q: float | Sequence[float] | FloatArray) -> Any:
        """Posterior quantiles: a float for one q, (len(q),) for several, with another axis for a
        parameter of k numbers.
        """
        wanted = np.atleast_1d(np.asarray(q, dtype=float))
        if wanted.ndim != 1 or not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"q must be probabilities between 0 and 1, got {q}.")
        if (own := self._quantity(name)) is not None:
            ends = own.quantile(wanted)
            return float(ends[0]) if np.ndim(q) == 0 else ends
        found = self.solution.quantile(self._index(name), wanted)  # (len(q), k)
        if self._size_of(name) == 1:
            return float(found[0, 0]) if np.ndim(q) == 0 else found[:, 0]
        return found[0] if np.ndim(q) == 0 else found

    def interval(self, name: str, level: float) -> tuple[Any, Any]:
        """The equal-tailed interval that holds the parameter with probability `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}; such as 0.9.")
        ends = self.quantile(name, [(1 - level) / 2, (1 + level) / 2])
        return (float(ends[0]), float(ends[1])) if self._size_of(name) == 1 else (ends[0], ends[1])

    def cdf(self, name: str, x: float | Sequence[float] | FloatArray) -> Any:
        """The probability that the parameter is at most x: a float, or as many as x has numbers; of
        a parameter of k numbers for each of them, x being one for all or (..., k).
        """
        at, size = np.asarray(x, dtype=float), self._size_of(name)
        if np.isnan(at).any():
            raise ValueError("x must be numbers, got NaN.")
        if (own := self._quantity(name)) is not None:
            below = own.cdf(at)
            return float(below) if at.ndim == 0 else below
        if size == 1:
            found = self.solution.cdf(self._index(name), at[..., None])[..., 0]
            return float(found) if at.ndim == 0 else found
        if at.ndim > 0 and at.shape[-1] != size:
            raise ValueError(f"x must be one number or {size}, one for each of {name}.")
        return self.solution.cdf(self._index(name), np.broadcast_to(at, (*at.shape[:-1], size)))

    def draw(self, size: int, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Fresh draws of each parameter, (size,) or (size, k); those of one row belong together."""
        return dict(zip(self.names, self.solution.draw(rng, size), strict=True))

    def summary(self) -> "Summary":
        """One row for each number, the parameters' and then the derived ones: name, mean, sd, and
        the 5, 50 and 95 % quantiles. Printed, it says what missing records count as.
        """
        rows = []
        for parameter, name in enumerate(self.names):
            figures = self.solution.summary(parameter)
            labels = self.family.labels_of(name)
            for j, values in enumerate(figures):
                title = name if len(figures) == 1 else f"{name}[{labels[j]}]"
                columns = zip(Summary.COLUMNS, map(existing, values), strict=True)
                rows.append({"name": title} | dict(columns))
        for name in self.derived:
            own = self._quantity(name)
            if own is not None:
                columns = zip(Summary.COLUMNS, map(existing, own.summary()), strict=True)
                rows.append({"name": name} | dict(columns))
        return Summary(rows, said_of_missing_in(self.releases))

    @cached_property
    def certificate(self) -> Certificate:
        """The method, the reason for it, and how wrong the numbers may be."""
        own = self.solution.certificate()
        beyond = own.beyond or expected_beyond(
            self.family, self.solution, self.prior, self.releases
        )
        return replace(
            own,
            instead_of=self._instead_of,
            beyond=beyond,
            missing=said_of_missing_in(self.releases) or own.missing,
            persons=said_of_persons(self.releases) or own.persons,
            leaning=leaning(self.family, self.solution, self.prior, self.releases),
        )

    def curve(self, name: str) -> tuple[FloatArray, FloatArray]:
        """theta and the posterior density there, to draw: from the density itself, or from draws,
        smoothed.
        """
        if self._size_of(name) > 1:
            raise ValueError(f"{name} is several numbers; a curve is drawn of one.")
        own = self._quantity(name)
        found = self.solution.curve(self._index(name)) if own is None else own.curve()
        if found is not None:
            return found
        from scipy.stats import gaussian_kde

        draws = own.values if isinstance(own, FromDraws) else self.draws[name]
        at = np.linspace(float(np.quantile(draws, 0.002)), float(np.quantile(draws, 0.998)), 300)
        return at, np.asarray(gaussian_kde(draws)(at))

    def to_arviz(self) -> Any:
        """The draws as ArviZ data (an InferenceData, or a DataTree with ArviZ 1.x), with where they
        come from in its attributes: the chains of a method that has chains, thinned to about as
        many draws; else the independent draws as four chains.
        """
        from noisewise.inference.exchange import to_arviz

        return to_arviz(self)

    def chains(self) -> dict[str, FloatArray]:
        """Draws of each parameter by chain, (chains, steps) or (chains, steps, k)."""
        found = self.solution.chains(np.random.default_rng(self._seed()), self._size)
        if found is not None:
            return dict(zip(self.names, found, strict=True))
        chains = min(CHAINS, self._size)
        held = self._size // chains * chains
        return {
            name: values[:held].reshape(chains, -1, *values.shape[1:])
            for name, values in self.draws.items()
        }

    def plot(self, axes: Any = None) -> Any:
        """A figure of each parameter's density with its 90 % interval; returns the matplotlib
        figure.
        """
        from noisewise.report.plots import plot_posterior

        return plot_posterior(self, axes)

    def __repr__(self) -> str:
        return f"Posterior({self.family.kind}, {self.method})\n{self.summary()}"

    def _index(self, name: str) -> int:
        if name not in self.names:
            known = ", ".join((*self.names, *self.derived))
            raise ValueError(f"no parameter {name!r}; the {self.family.kind} family has {known}.")
        return self.names.index(name)

    def _size_of(self, name: str) -> int:
        if name in self._derived:
            return 1
        return self.family.parameters[self._index(name)].size

    def _out(self, name: str, values: FloatArray) -> Any:
        return existing(values[0]) if self._size_of(name) == 1 else values


def existing(value: Any) -> float | None:
    """A figure, or None where it does not exist."""
    return None if value is None or not math.isfinite(value) else float(value)


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.5g}"


class Summary(list[dict[str, Any]]):
    """A list of dict whose str() is a table, with a line below it."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("mean", "sd", "5%", "50%", "95%")

    def __init__(self, rows: Iterable[dict[str, Any]] = (), below: str | None = None) -> None:
        super().__init__(rows)
        self.below = below
        """What to know of the table, a clause."""

    def __str__(self) -> str:
        header = ["", *self.COLUMNS]
        rows = [
            [str(row["name"]), *(_figure(row[column]) for column in self.COLUMNS)] for row in self
        ]
        widths = [max(len(row[j]) for row in (header, *rows)) for j in range(len(header))]
        lines = []
        for row in (header, *rows):
            cells = (
                cell.ljust(w) if j == 0 else cell.rjust(w)
                for j, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(cells))
        if self.below is not None:
            lines.append(f"{self.below}.")
        return "\n".join(lines)
