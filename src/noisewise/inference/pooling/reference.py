"""A wide prior to tabulate likelihoods with: it says where to look, and is divided out again."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from scipy import special

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.problem import prior_for
from noisewise.model import priors
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family
from noisewise.model.priors import Prior


@final
@dataclass(frozen=True, eq=False)
class Reference(Prior):
    """psi of the first parameter ~ logistic(centre, scale), whose tails fall so slowly that a
    likelihood is tabulated wherever a population may be; the second parameter, independent of it,
    ~ `second`.
    """

    positive: ClassVar = ("scale",)
    axis: Axis
    centre: float
    scale: float
    second: "Prior | Given | None" = field(default=None)

    def log_psi(self, psi: FloatArray) -> FloatArray:
        """The log density of psi of the first parameter."""
        z = (psi - self.centre) / self.scale
        return np.asarray(special.log_expit(z) + special.log_expit(-z) - np.log(self.scale))

    def log_density(self, theta: FloatArray) -> FloatArray:
        psi = self.axis.psi(theta[:, 0])
        value = self.log_psi(psi) - self.axis.log_jacobian(psi)
        return value if self.second is None else value + self.second.log_density(theta[:, 1:])

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        psi = self.centre + self.scale * rng.logistic(size=size)
        first = self.axis.theta(np.clip(psi, *self.axis.range))[:, None]
        if self.second is None:
            return first
        return np.concatenate([first, self.second.draw(rng, size)], axis=1)


@final
@dataclass(frozen=True, eq=False)
class Given:
    """A frozen distribution of SciPy as the prior of one parameter."""

    distribution: Any

    def log_density(self, theta: FloatArray) -> FloatArray:
        """(batch,) for theta of shape (batch, 1)."""
        return np.asarray(self.distribution.logpdf(theta[:, 0]))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """(size, 1)."""
        return np.asarray(self.distribution.rvs(size=size, random_state=rng), dtype=float)[:, None]


def prior_of_second(release: Release, prior: "Prior | str | None") -> "Prior | Given | None":
    """The prior of a family's second parameter: that of the weak prior, or of the one given."""
    parameters = release.family.parameters
    if len(parameters) == 1:
        if prior is not None:
            raise UnsupportedCombination(
                f"the {release.family.kind} family has one parameter, and its prior is the "
                "population; leave prior out."
            )
        return None
    if len(parameters) > 2:
        raise UnsupportedCombination(
            f"pool serves one or two parameters, the {release.family.kind} family has "
            f"{len(parameters)}."
        )
    whole = prior_for(release, "weak" if prior is None else prior)
    found = _second(release.family, whole)
    if found is None:
        name = parameters[1].name
        raise UnsupportedCombination(
            f"prior must be one of {name}, such as priors.InverseGamma(shape=1, scale=2), or one "
            f"of both parameters whose {name} does not depend on the other."
        )
    return found


def _second(family: Family, prior: object) -> "Prior | Given | None":
    """The marginal prior of the second parameter."""
    if isinstance(prior, priors.NormalInverseGamma):
        return priors.InverseGamma(prior.shape, prior.scale)
    distributions = getattr(prior, "distributions", None)
    if isinstance(distributions, dict):
        one = distributions.get(family.parameters[1].name)
        return None if one is None else Given(one)
    lower, upper = family.parameters[1].lower, family.parameters[1].upper
    positive = (priors.InverseGamma, priors.Gamma)
    if isinstance(prior, positive) and (lower, upper) == (0.0, np.inf):
        return prior
    if isinstance(prior, priors.Normal) and (lower, upper) == (-np.inf, np.inf):
        return prior
    return None
