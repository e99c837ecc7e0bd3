"""The priors: conjugate ones, and any of SciPy's distributions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy import special

from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import Linear as Linear
from noisewise.model.column_priors import NormalInverseWishart as NormalInverseWishart
from noisewise.model.independent import Independent as Independent
from noisewise.model.prior import REGISTRY as REGISTRY
from noisewise.model.prior import Hyper as Hyper
from noisewise.model.prior import Prior as Prior
from noisewise.model.prior import require, require_finite


@final
@dataclass(frozen=True, slots=True)
class Beta(Prior):
    """Density proportional to p^(alpha - 1) (1 - p)^(beta - 1) on [0, 1]."""

    kind: ClassVar[str] = "beta"
    positive: ClassVar = ("alpha", "beta")
    alpha: Hyper
    beta: Hyper

    def __post_init__(self) -> None:
        require(self, *self.positive)

    def log_density(self, theta: FloatArray) -> FloatArray:
        p = theta[:, 0]
        kernel = special.xlogy(self.alpha - 1, p) + special.xlog1py(self.beta - 1, -p)
        return np.asarray(kernel - special.betaln(self.alpha, self.beta))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.beta(self.alpha, self.beta, size)[:, None]


@final
@dataclass(frozen=True, slots=True)
class Dirichlet(Prior):
    """Density proportional to prod_j p_j^(c_j - 1) on the simplex; concentration has shape (K,) or
    (batch, K).
    """

    kind: ClassVar[str] = "dirichlet"
    positive: ClassVar = ("concentration",)
    concentration: "Sequence[float] | FloatArray"

    def __post_init__(self) -> None:
        require(self, *self.positive)
        if np.ndim(self.concentration) < 1 or np.shape(self.concentration)[-1] < 2:
            raise ValueError(
                "concentration of the dirichlet prior needs one number per category, "
                f"got {self.concentration}."
            )
        if np.ndim(self.concentration) == 1:
            object.__setattr__(self, "concentration", tuple(float(c) for c in self.concentration))

    def log_density(self, theta: FloatArray) -> FloatArray:
        c = np.asarray(self.concentration)
        normaliser = special.gammaln(c.sum(-1)) - special.gammaln(c).sum(-1)
        return np.asarray(normaliser + special.xlogy(c - 1, theta).sum(-1))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        c = np.asarray(self.concentration)
        shape = (size, c.shape[-1])
        if c.min() >= 1:
            weight = rng.standard_gamma(c, shape)
            return np.asarray(weight / weight.sum(-1, keepdims=True))
        # log of a Gamma(c) draw as log Gamma(c + 1) + log(U)/c: small concentrations would
        # underflow to 0/0.
        log_gamma = np.log(rng.standard_gamma(c + 1, shape)) - rng.standard_exponential(shape) / c
        return np.asarray(special.softmax(log_gamma, axis=-1))


@final
@dataclass(frozen=True, slots=True)
class Gamma(Prior):
    """Density proportional to r^(shape - 1) e^(-rate r) on r > 0; its mean is shape / rate."""

    kind: ClassVar[str] = "gamma"
    positive: ClassVar = ("shape", "rate")
    shape: Hyper
    rate: Hyper

    def __post_init__(self) -> None:
        require(self, *self.positive)

    def log_density(self, theta: FloatArray) -> FloatArray:
        r = theta[:, 0]
        kernel = special.xlogy(self.shape - 1, r) - self.rate * r
        return np.asarray(kernel + self.shape * np.log(self.rate) - special.gammaln(self.shape))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return (rng.standard_gamma(self.shape, size) / self.rate)[:, None]


@final
@dataclass(frozen=True, slots=True)
class Normal(Prior):
    """The normal distribution with the given mean and standard deviation."""

    kind: ClassVar[str] = "normal"
    positive: ClassVar = ("sd",)
    mean: Hyper
    sd: Hyper

    def __post_init__(self) -> None:
        require_finite(self, "mean")
        require(self, *self.positive)

    def log_density(self, theta: FloatArray) -> FloatArray:
        z = (theta[:, 0] - self.mean) / self.sd
        return np.asarray(-0.5 * z * z - np.log(self.sd) - 0.5 * np.log(2 * np.pi))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.normal(self.mean, self.sd, size)[:, None]


def _inverse_gamma_log_density(v: FloatArray, shape: Hyper, scale: Hyper) -> FloatArray:
    return np.asarray(
        shape * np.log(scale) - special.gammaln(shape) - (shape + 1) * np.log(v) - scale / v
    )


@final
@dataclass(frozen=True, slots=True)
class InverseGamma(Prior):
    """Density proportional to v^(-shape - 1) e^(-scale / v) on v > 0."""

    kind: ClassVar[str] = "inverse_gamma"
    positive: ClassVar = ("shape", "scale")
    shape: Hyper
    scale: Hyper

    def __post_init__(self) -> None:
        require(self, *self.positive)

    def log_density(self, theta: FloatArray) -> FloatArray:
        return _inverse_gamma_log_density(theta[:, 0], self.shape, self.scale)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return (self.scale / rng.standard_gamma(self.shape, size))[:, None]


@final
@dataclass(frozen=True, slots=True)
class NormalInverseGamma(Prior):
    """variance ~ InverseGamma(shape, scale); mean given it ~ Normal(mean, sqrt(variance /
    strength)). theta = (mean, variance).
    """

    kind: ClassVar[str] = "normal_inverse_gamma"
    positive: ClassVar = ("strength", "shape", "scale")
    mean: Hyper
    strength: Hyper
    shape: Hyper
    scale: Hyper

    def __post_init__(self) -> None:
        require_finite(self, "mean")
        require(self, *self.positive)

    def log_density(self, theta: FloatArray) -> FloatArray:
        mean, variance = theta[:, 0], theta[:, 1]
        z2 = self.strength * (mean - self.mean) ** 2 / variance
        given = -0.5 * z2 + 0.5 * np.log(self.strength / (2 * np.pi * variance))
        return np.asarray(given + _inverse_gamma_log_density(variance, self.shape, self.scale))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        variance = self.scale / rng.standard_gamma(self.shape, size)
        mean = self.mean + np.sqrt(variance / self.strength) * rng.standard_normal(size)
        return np.stack([mean, variance], axis=-1)
