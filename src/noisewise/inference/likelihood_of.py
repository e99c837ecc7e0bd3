"""`likelihood`: the exact log-likelihood of a release, for models of one's own."""

from functools import cached_property
from typing import Any, final

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.adaptive import LOWEST
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.likelihood_exact import precise
from noisewise.inference.likelihood_tables import Table, tabulate
from noisewise.inference.methods.grids import Exact
from noisewise.inference.observations import gather
from noisewise.inference.pooling.reference import Reference
from noisewise.inference.problem import Problem, check_n_prior
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family
from noisewise.model.priors import Prior

REFERENCE_DRAWS = 2001
"""Of the weak prior, from which the middle and the width of the table are read."""


@final
class Likelihood:
    """log p(y | theta) of one release: `log` computes it, `jax` reads it off a smooth table.

    Where n is not public it is p(y, count | theta), summed over n under its prior.
    """

    def __init__(self, release: Release, n_prior: Prior | None) -> None:
        self.release = release
        self._observations = gather([release], n_prior)
        reference = _reference(release)
        self._problem = Problem(release.family, (reference,), (self._observations,))
        refusal = Exact().refusal(self._problem)
        if refusal is not None:
            raise UnsupportedCombination(f"there is no likelihood of this release: {refusal}")

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in the order of theta's columns."""
        return tuple(parameter.name for parameter in self.release.family.parameters)

    def log(self, theta: Any) -> FloatArray:
        """log p(y | theta), (batch,), for theta of shape (batch, p) or, of one parameter, (batch,).

        A float for one theta. Finite for every theta that a parameter may have; -inf beyond.
        """
        given = np.asarray(theta, dtype=float)
        rows = self._rows(given)
        lower, upper = (
            np.array([getattr(one, side) for one in self.release.family.parameters])
            for side in ("lower", "upper")
        )
        allowed = ((rows > lower) & (rows < upper)).all(axis=1)
        out = np.full(len(rows), -np.inf)
        group = np.zeros(int(allowed.sum()), dtype=np.int64)
        with np.errstate(all="ignore"):
            exact = precise(self._observations, rows[allowed])
            lost = ~np.isfinite(exact)
            if lost.any():  # so far out that only the normal approximation has digits
                exact[lost] = self._observations.collapsed(rows[allowed][lost], group[lost])
        out[allowed] = np.nan_to_num(exact, nan=LOWEST, neginf=LOWEST) + self._constant
        return out if self._several(given) else out[0]

    def jax(self, theta: Any) -> Any:
        """The same as a JAX function, off a table that is made once: theta of shape (...) for one
        parameter, (..., 2) for two, gives (...). It has gradients, and vmaps.
        """
        import jax.numpy as jnp

        theta = jnp.asarray(theta)
        if len(self.names) == 1:
            if theta.ndim > 1 and theta.shape[-1] == 1:
                theta = theta[..., 0]
            return self.table(theta[..., None], jnp) + self._constant
        return self.table(theta, jnp) + self._constant

    @cached_property
    def table(self) -> Table:
        """Of the log-likelihood, in unconstrained coordinates."""
        return tabulate(self._problem)

    @cached_property
    def _constant(self) -> float:
        """What the sums lack to be log densities: the noise of a count, and of no records at
        all.
        """
        release = self.release
        if release.count is not None:
            return float(release.count.noise.log_density(np.zeros(1))[0])
        if release.n == 0:
            return float(np.sum(release.noise.log_density(np.array(release.statistic))))
        return 0.0

    def _several(self, given: FloatArray) -> bool:
        return given.ndim > (0 if len(self.names) == 1 else 1)

    def _rows(self, given: FloatArray) -> FloatArray:
        """(batch, p)."""
        size = len(self.names)
        if size == 1 and given.ndim < 2:
            return given.reshape(-1, 1)
        if given.ndim > 2 or given.ndim == 0 or given.shape[-1] != size:
            raise ValueError(
                f"theta must have {size} columns, {' and '.join(self.names)}; got the shape "
                f"{given.shape}."
            )
        return given.reshape(-1, size)


def likelihood(release: Release, *, n_prior: "Prior | str | None" = None) -> Likelihood:
    """The likelihood of a release's noisy statistic as a function of theta: the sampling of the
    records, the bounds and the noise integrated out, without approximation.

    `n_prior` is for releases whose n is not public; None is a flat one.
    """
    if not isinstance(release, Release):
        raise UnsupportedCombination(
            f"release must be a noisewise release, got {type(release).__name__}; load() reads one."
        )
    if release.family.statistic_kind != "sums":
        raise UnsupportedCombination(
            f"likelihood serves families of sums with one or two parameters; "
            f"{release.family.kind} is none of them."
        )
    return Likelihood(release, check_n_prior([release], n_prior))


def _reference(release: Release) -> Reference:
    """As wide as the weak prior, with heavier tails."""
    family = release.family
    weak = family.weak_prior(release.bounds)
    if weak is None:
        raise UnsupportedCombination(
            f"the {family.kind} family has no weak prior, which says where to tabulate; give the "
            "family one (weak_prior)."
        )
    axis = Axis.of(family.parameters[0])
    second = None
    if len(family.parameters) == 2:
        second = Reference(Axis.of(family.parameters[1]), *_middle_and_width(family, weak, 1))
    return Reference(axis, *_middle_and_width(family, weak, 0), second)


def _middle_and_width(family: Family, weak: Prior, column: int) -> tuple[float, float]:
    """Of psi of a parameter under the weak prior: its median, and the width of its middle half."""
    axis = Axis.of(family.parameters[column])
    draws = axis.psi(weak.draw(np.random.default_rng(0), REFERENCE_DRAWS)[:, column])
    low, middle, high = np.quantile(draws, [0.25, 0.5, 0.75])
    return float(middle), float(high - low)
