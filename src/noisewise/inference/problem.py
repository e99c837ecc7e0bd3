"""A prior and what releases say, for many groups at once: log posteriors in unconstrained
coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.observations import Observations
from noisewise.model import notation
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.family import Family
from noisewise.model.independent import Independent, OneEach, suggestion
from noisewise.model.priors import Gamma, InverseGamma, Normal, Prior

PRIOR_DRAWS = 256
"""From which the first grid takes the prior's middle and spread: a few per cent are enough."""
FAR_VARIANCES = (60.0, 80.0)
"""Log variances, from that of the bounds, at which the tail of a prior of two parameters is read
off.
"""
DECAY_READ_AT = (12.0, 16.0)
"""So far inward from the last float of theta the decay of the prior is read off."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Groups with a prior each; every observations speaks of all groups, and their likelihoods
    multiply.
    """

    family: Family
    priors: tuple[Prior, ...]  # one for all groups, or one each
    observations: tuple[Observations, ...]

    @property
    def groups(self) -> int:
        """How many posteriors there are."""
        return int(self.observations[0].n.size)

    @property
    def most_records(self) -> float:
        """The number of records of the largest observations."""
        return float(max(one.n.max() for one in self.observations))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The unconstrained coordinates of the parameters: of where the prior lets them be, so that
        no density ends at a cliff.
        """
        axes = tuple(Axis.of(parameter) for parameter in self.family.parameters)
        supports = support_of(self.priors[0])
        if supports is None or any(support_of(one) != supports for one in self.priors[1:]):
            return axes
        return tuple(axis.within(*support) for axis, support in zip(axes, supports, strict=True))

    @property
    def conjugate(self) -> bool:
        """Whether every prior is the family's conjugate one."""
        own = self.family.prior
        return own is not None and all(isinstance(one, own) for one in self.priors)

    def take(self, groups: IntArray) -> "Problem":
        """Some of the groups."""
        priors = self.priors if len(self.priors) == 1 else tuple(self.priors[g] for g in groups)
        return Problem(self.family, priors, tuple(e.take(groups) for e in self.observations))

    def prior_of(self, group: int) -> Prior:
        """The prior of one group."""
        return self.priors[0 if len(self.priors) == 1 else group]

    def stretch(self, psi2: FloatArray) -> FloatArray:
        """How far the location moves per unit of psi1, at a log variance psi2: sqrt(variance +
        radius^2).

        Where records spread little within the bounds, the bounds are the unit of the location;
        where they spread far beyond, their sd is, since nothing else can be told. In these
        coordinates a posterior is no funnel. A prior under which the location does not know of the
        variance keeps it within one range: the bounds are the unit.
        """
        if isinstance(self.priors[0], Independent):
            return np.full(np.shape(psi2), self._radius)
        return np.sqrt(self.axes[1].theta(psi2) + self._radius**2)

    @property
    def sheared(self) -> bool:
        """Whether psi1 is the log of the ratio of both parameters."""
        return self.family.ratio and all(one == Axis(0, np.inf) for one in self.axes)

    def shift(self, psi2: FloatArray) -> FloatArray:
        """By how much the first parameter's own coordinate exceeds psi1, at psi2."""
        return psi2 if self.sheared else np.zeros(np.shape(psi2))

    @property
    def together(self) -> bool:
        """Whether psi1 is a location in units that follow the second parameter, a variance."""
        if not self.family.polynomial or self.observations[0].bounds is None:
            return False
        return bool(np.isinf(self.axes[0].lower) and np.isinf(self.axes[0].upper))

    @property
    def centre(self) -> float:
        """Where psi1 is 0."""
        bounds = self.observations[0].bounds
        return (bounds.lower + bounds.upper) / 2 if self.together and bounds is not None else 0.0

    @property
    def _radius(self) -> float:
        bounds = self.observations[0].bounds
        assert bounds is not None
        return (bounds.upper - bounds.lower) / 2

    def theta(self, psi: FloatArray) -> FloatArray:
        """(points, p) from psi of shape (points,) or (points, p)."""
        columns = self._columns(psi)
        theta = np.stack([axis.theta(columns[:, j]) for j, axis in enumerate(self.axes)], axis=1)
        if self.together:
            theta[:, 0] = self.centre + columns[:, 0] * self.stretch(columns[:, 1])
        return theta

    def _columns(self, psi: FloatArray) -> FloatArray:
        """The coordinate of each parameter by itself, (points, p)."""
        if psi.ndim == 1:
            return psi[:, None]
        if not self.sheared:
            return psi
        return np.stack([psi[:, 0] + psi[:, 1], psi[:, 1]], axis=1)

    def psi(self, theta: FloatArray) -> FloatArray:
        """(points, p) from theta of shape (points, p)."""
        psi = np.stack([axis.psi(theta[:, j]) for j, axis in enumerate(self.axes)], axis=1)
        if self.sheared:
            psi[:, 0] -= psi[:, 1]
        if self.together:
            psi[:, 0] = (theta[:, 0] - self.centre) / self.stretch(psi[:, 1])
        return psi

    def log_prior(self, psi: FloatArray, group: IntArray) -> FloatArray:
        """The log prior density of psi."""
        columns = self._columns(psi)
        jacobian = np.asarray(
            sum(axis.log_jacobian(columns[:, j]) for j, axis in enumerate(self.axes))
        )
        with np.errstate(all="ignore"):
            if self.together:
                jacobian = jacobian + np.log(self.stretch(columns[:, 1]))
            return np.asarray(self._prior(group).log_density(self.theta(psi)) + jacobian)

    def decay(self) -> FloatArray:
        """How fast the log prior of psi, of one parameter, falls towards either end of its range,
        (groups, 2).

        There the likelihood is constant, so that the posterior falls as fast. Read off where theta
        has digits to spare.
        """
        low, high = self.axes[0].range
        near, far = DECAY_READ_AT
        at = np.array([low + near, low + far, high - near, high - far])
        group = np.repeat(np.arange(self.groups), at.size)
        value = self.log_prior(np.tile(at, self.groups), group).reshape(self.groups, at.size)
        decay = (value[:, 1::2] - value[:, ::2]) / (far - near)
        return np.nan_to_num(decay, nan=0.0, posinf=0.0, neginf=0.0)

    def tail_index(self, parameter: int) -> FloatArray | None:
        """The power with which the prior of a parameter falls far out, (groups,); there the
        likelihood is constant.
        """
        axis = self.axes[parameter]
        if len(self.axes) == 1:
            return (
                self.decay()[:, 1] + 1 if np.isfinite(axis.lower) and np.isinf(axis.upper) else None
            )
        if all(isinstance(one, Independent) for one in self.priors):
            found = [one.tail_index(parameter) for one in self.priors]  # type: ignore[attr-defined]
            return np.broadcast_to(np.array(found), (self.groups,))
        if not self.together:
            return None
        away = 2 * np.log(self._radius) + np.array(FAR_VARIANCES)
        group = np.arange(self.groups)
        near, far = (
            self.log_prior(np.broadcast_to([0.0, v], (self.groups, 2)), group) for v in away
        )
        decay = np.nan_to_num(
            (near - far) / (FAR_VARIANCES[1] - FAR_VARIANCES[0]), nan=0.0, posinf=0.0, neginf=0.0
        )
        # a location moves as the root of the variance
        return 2 * decay + 1 if parameter == 0 else decay + 1

    def _prior(self, group: IntArray) -> Prior:
        if len(self.priors) == 1:
            return self.priors[0]
        first = self.priors[0]
        if any(isinstance(one, Independent) or type(one) is not type(first) for one in self.priors):
            return OneEach(self.priors, group)
        names = list(first.hyperparameters)
        return type(first)(
            **{
                name: np.array([getattr(prior, name) for prior in self.priors])[group]
                for name in names
            }
        )

    def collapsed(self, psi: FloatArray, group: IntArray) -> FloatArray:
        """The log likelihood under the normal approximation."""
        theta = self.theta(psi)
        return np.asarray(sum(e.collapsed(theta, group) for e in self.observations))

    def pilot(self, psi: FloatArray, group: IntArray) -> FloatArray:
        """A cheap log likelihood to search with."""
        theta = self.theta(psi)
        return np.asarray(sum(e.pilot(theta, group) for e in self.observations))

    def exact(
        self,
        psi: FloatArray,
        group: IntArray,
        slack: FloatArray | None = None,
        least_order: int = 0,
        least: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """The log likelihood, and its numerical error, which may be `slack` times the usual one;
        where it is below `least`, what it does not exceed will do.
        """
        theta = self.theta(psi)
        if least is not None:
            value = np.asarray(sum(e.bound(theta, group) for e in self.observations))
            error, todo = np.zeros(len(psi)), np.flatnonzero(~(value < least))
            value[todo], error[todo] = self.exact(psi[todo], group[todo], slack, least_order)
            return value, error
        parts = [e.exact(theta, group, slack, least_order) for e in self.observations]
        return np.asarray(sum(value for value, _ in parts)), np.asarray(
            sum(error for _, error in parts)
        )

    def first_grid(self, axis: int, points: int) -> FloatArray:
        """Points from within the prior to far beyond it, (groups, points): the middle as dense as
        the prior, the ends sparse.
        """
        rng = np.random.default_rng(0)
        which = np.repeat(np.arange(len(self.priors)), PRIOR_DRAWS)
        theta = self._prior(which).draw(rng, which.size)
        psi = np.sort(self.psi(theta)[:, axis].reshape(len(self.priors), PRIOR_DRAWS), axis=1)
        middle, spread = (
            psi[:, PRIOR_DRAWS // 2],
            (psi[:, -PRIOR_DRAWS // 10] - psi[:, PRIOR_DRAWS // 10]) / 2,
        )
        spread = np.maximum(spread, 1e-9 * (1 + np.abs(middle)))
        low, high = self.axes[axis].range
        steps = np.sinh(np.linspace(-1, 1, points) * np.arcsinh(1e5))
        grid = np.clip(middle[:, None] + spread[:, None] * steps, low, high)
        # What was cut at a limit is spread evenly between it and the nearest point within.
        for row in grid:
            cut = int((row <= low).sum()), int((row >= high).sum())
            inner = row[cut[0] : points - cut[1]]
            row[: cut[0]] = np.linspace(low, inner[0], cut[0] + 1)[:-1]
            row[points - cut[1] :] = np.linspace(inner[-1], high, cut[1] + 1)[1:]
        return np.broadcast_to(grid, (self.groups, grid.shape[1]))


def prior_for(release: Release, prior: "Prior | str") -> Prior:
    """A prior as it is, or from the text of the command line: "weak", or such as "gamma(shape=2,
    rate=20)".
    """
    if isinstance(prior, str) and prior.strip() != "weak":
        prior = notation.prior(prior)
    if isinstance(prior, Independent) and release.family.statistic_kind == "sums":
        return prior.of(release.family.kind, release.family.parameters)
    if not isinstance(prior, str):
        return prior
    weak = release.family.weak_prior(release.bounds)
    if weak is None:
        raise UnsupportedCombination(
            f"there is no weak prior for the {release.family.kind} family; give one, such as "
            f"{example(release.family)}."
        )
    return weak


def support_of(prior: Prior) -> tuple[tuple[float, float], ...] | None:
    """Where a prior lets each parameter be; None where it lets them be anywhere."""
    return prior.supports if isinstance(prior, Independent) else None


def check_prior(family: Family, prior: Prior) -> None:
    """Refuse a prior that is neither the family's conjugate one nor one of each parameter."""
    if not isinstance(prior, Prior):
        raise UnsupportedCombination(
            f"prior must be a prior such as {example(family)}, got {type(prior).__name__}."
        )
    if isinstance(prior, Independent) and family.statistic_kind == "sums":
        prior.of(family.kind, family.parameters)
        return
    if family.prior is None:
        raise UnsupportedCombination(
            f"the {family.kind} family has no conjugate prior; give a distribution for each "
            f"parameter, such as {example(family)!r}, not {prior.kind}."
        )
    if not isinstance(prior, family.prior):
        raise UnsupportedCombination(
            f"the {family.kind} family takes a {family.prior.kind} prior, such as "
            f"{example(family)}, not {prior.kind}."
        )
    several = [
        name
        for name, value in prior.hyperparameters.items()
        if name != "concentration" and not isinstance(value, Real)
    ]
    if several:
        raise UnsupportedCombination(
            f"{several[0]} of the {prior.kind} prior must be one number, as in {example(family)}."
        )
    if not np.all(prior.valid):
        raise UnsupportedCombination(
            f"the {prior.kind} prior has hyperparameters that are not positive and finite."
        )
    size = family.parameters[0].size
    if size > 1 and np.shape(getattr(prior, "concentration", ())) != (size,):
        raise UnsupportedCombination(
            f"the dirichlet prior needs {size} numbers here, one for each category."
        )


def check_n_prior(releases: Sequence[Release], prior: "Prior | str | None") -> Prior | None:
    """The prior of a number of records; anything else is refused."""
    if prior is None:
        return None
    own = notation.prior(prior) if isinstance(prior, str) else prior
    if not isinstance(own, (Gamma, InverseGamma, Normal)):
        said = own.kind if isinstance(own, Prior) else type(own).__name__
        raise UnsupportedCombination(
            "n_prior must be a prior of a number of records, such as gamma(shape=4, rate=0.01), "
            f"got {said}; "
            "leave it out for a flat one."
        )
    if any(map(np.ndim, own.hyperparameters.values())):
        raise UnsupportedCombination("n_prior must be one prior, with a number for each setting.")
    if all(release.n is not None for release in releases):
        raise UnsupportedCombination("the number of records is public here; leave n_prior out.")
    return own


def example(family: Family) -> str:
    """How a prior for the family is written on the command line."""
    if family.prior is None:
        return ", ".join(suggestion(parameter) for parameter in family.parameters)
    if family.prior.kind == "dirichlet":
        size = family.parameters[0].size
        return f"dirichlet(concentration={[1] * min(size, 3)}{' ...' if size > 3 else ''})"
    settings = {
        "alpha": 1,
        "beta": 1,
        "shape": 2,
        "rate": 20,
        "mean": 0,
        "sd": 10,
        "scale": 3,
        "strength": 1,
    }
    names = [field.name for field in fields(family.prior)]  # type: ignore[arg-type]
    return f"{family.prior.kind}({', '.join(f'{name}={settings[name]}' for name in names)})"
