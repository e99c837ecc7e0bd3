"""The laws of the noise on a released statistic: independent over statistics, symmetric about 0.

`scale` and `step` are in the statistic's units, one number for all statistics or one for each.
Arrays have the statistics on their last axis. `simulate` is for studies of synthetic records; a
release draws in `secure`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias, final

import numpy as np
from scipy import special

from noisewise.model.arrays import FloatArray, positive_tuple

REGISTRY: dict[str, type["Noise"]] = {}
Numbers: TypeAlias = float | Sequence[float]
"""What a person may give: one number or several. The field holds a tuple once the noise is made."""


class Noise(ABC):
    """z = y - s, the difference between the released and the true statistic."""

    kind: ClassVar[str]
    discrete: ClassVar[bool] = False
    scale: Numbers

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            REGISTRY[cls.kind] = cls

    @property
    def scales(self) -> FloatArray:
        """The scale of each statistic, shape (d,), or (1,) for all."""
        return np.array(self.scale, dtype=np.float64)

    @property
    def steps(self) -> FloatArray:
        """The lattice spacing of each statistic; discrete noise only."""
        return np.array(self.step, dtype=np.float64)  # type: ignore[attr-defined]

    @abstractmethod
    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each coordinate; for discrete noise the log probability of the lattice
        point z.
        """

    @abstractmethod
    def cdf(self, z: FloatArray) -> FloatArray:
        """P(noise <= z), for each coordinate."""

    @abstractmethod
    def characteristic(self, omega: FloatArray) -> FloatArray:
        """E cos(omega noise), for each coordinate; the sine part is 0 by symmetry."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Seeded draws for studies, shape (size, d)."""

    def broadcast(self, d: int) -> Self:
        """The same noise with one scale (and step) for each of d statistics."""
        grown = {}
        for name in ("scale", "step") if self.discrete else ("scale",):
            values = getattr(self, name)
            if len(values) not in (1, d):
                raise ValueError(
                    f"noise {name} has {len(values)} numbers for {d} statistics; give "
                    "one, or one for each."
                )
            grown[name] = values * d if len(values) == 1 else values
        return replace(self, **grown)  # type: ignore[type-var]


def _settle(noise: Noise, scale_is: str) -> None:
    """Check scale and step, and hold them as tuples."""
    object.__setattr__(noise, "scale", positive_tuple("scale", noise.scale, scale_is))
    if noise.discrete:
        step = positive_tuple("step", noise.step, "it is the spacing of the lattice")  # type: ignore[attr-defined]
        object.__setattr__(noise, "step", step)
        if noise.scales.size != noise.steps.size and 1 not in (noise.scales.size, noise.steps.size):
            raise ValueError(
                f"noise has {noise.scales.size} scales and {noise.steps.size} steps; give one, or "
                "one for each statistic."
            )


@final
@dataclass(frozen=True, slots=True)
class Laplace(Noise):
    """Independent noise of density exp(-|z|/b)/2b on each statistic; b is L1
    sensitivity / epsilon.
    """

    kind: ClassVar[str] = "laplace"
    scale: Numbers

    def __post_init__(self) -> None:
        _settle(self, "it is L1 sensitivity / epsilon")

    def log_density(self, z: FloatArray) -> FloatArray:
        b = self.scales
        return -np.abs(z) / b - np.log(2 * b)

    def cdf(self, z: FloatArray) -> FloatArray:
        tail = 0.5 * np.exp(-np.abs(z) / self.scales)
        return np.where(z < 0, tail, 1 - tail)

    def characteristic(self, omega: FloatArray) -> FloatArray:
        return 1 / (1 + (self.scales * omega) ** 2)

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.laplace(0.0, self.scales, (size, self.scales.size))


@final
@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Noise):
    """P(z = k step) = tanh(step/2b) exp(-|k| step/b) on whole k; b is L1 sensitivity / epsilon."""

    kind: ClassVar[str] = "discrete_laplace"
    discrete: ClassVar[bool] = True
    scale: Numbers
    step: Numbers

    def __post_init__(self) -> None:
        _settle(self, "it is L1 sensitivity / epsilon")

    @property
    def _decay(self) -> FloatArray:
        return self.steps / self.scales

    def log_density(self, z: FloatArray) -> FloatArray:
        return np.log(np.tanh(self._decay / 2)) - np.abs(z) / self.scales

    def cdf(self, z: FloatArray) -> FloatArray:
        k = np.floor(z / self.steps)
        # P(noise <= k) = e^{(k+1) a}/(1 + e^a) for k < 0, with a = step/b.
        below = np.exp((np.minimum(k, -1) + 1) * self._decay) * special.expit(-self._decay)
        above = np.exp(-np.maximum(k, 0) * self._decay) * special.expit(-self._decay)
        return np.asarray(np.where(k < 0, below, 1 - above))

    def characteristic(self, omega: FloatArray) -> FloatArray:
        # (1 - e^-a)^2 / (1 - 2 e^-a cos(w) + e^-2a), divided through by 4 e^-a.
        half = np.sinh(self._decay / 2) ** 2
        return np.asarray(half / (half + np.sin(omega * self.steps / 2) ** 2))

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        # The difference of two geometric variables; floor(Exponential(a)) is geometric with ratio
        # e^-a.
        e = np.floor(rng.standard_exponential((2, size, self._decay.size)) / self._decay)
        return np.asarray((e[0] - e[1]) * self.steps)


@final
@dataclass(frozen=True, slots=True)
class Gaussian(Noise):
    """Independent normal noise; scale is its standard deviation."""

    kind: ClassVar[str] = "gaussian"
    scale: Numbers

    def __post_init__(self) -> None:
        _settle(self, "it is the standard deviation")

    def log_density(self, z: FloatArray) -> FloatArray:
        sd = self.scales
        return np.asarray(-0.5 * (z / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))

    def cdf(self, z: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(z / self.scales))

    def characteristic(self, omega: FloatArray) -> FloatArray:
        return np.exp(-0.5 * (self.scales * omega) ** 2)

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.standard_normal((size, self.scales.size)) * self.scales


@final
@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Noise):
    """P(z = k step) proportional to exp(-(k step)^2 / 2 scale^2) on whole k (Canonne, Kamath,
    Steinke 2020).
    """

    kind: ClassVar[str] = "discrete_gaussian"
    discrete: ClassVar[bool] = True
    scale: Numbers
    step: Numbers

    def __post_init__(self) -> None:
        _settle(self, "it is the parameter sigma of the discrete Gaussian")

    @property
    def _sigma(self) -> FloatArray:
        return self.scales / self.steps

    def log_density(self, z: FloatArray) -> FloatArray:
        return -0.5 * (z / self.scales) ** 2 - log_theta(self._sigma)

    def cdf(self, z: FloatArray) -> FloatArray:
        k, sigma = np.broadcast_arrays(np.floor(z / self.steps), self._sigma)
        # by symmetry P(noise <= k) = P(noise >= -k)
        upper = _upper_tail(np.abs(k + 0.5) + 0.5, sigma)
        return np.where(k < 0, upper, 1 - upper)

    def characteristic(self, omega: FloatArray) -> FloatArray:
        omega, sigma = np.broadcast_arrays(omega * self.steps, self._sigma)
        m = np.arange(-40, 41)
        wrapped = np.remainder(omega + np.pi, 2 * np.pi) - np.pi
        narrow, wide = np.minimum(sigma, 1.0)[..., None], np.maximum(sigma, 1.0)[..., None]
        direct = np.exp(-0.5 * (m / narrow) ** 2)
        # Poisson's summation formula
        dual = np.exp(-0.5 * (wide * (wrapped[..., None] + 2 * np.pi * m)) ** 2)
        at_zero = np.exp(-0.5 * (wide * 2 * np.pi * m) ** 2).sum(-1)
        return np.asarray(
            np.where(
                sigma < 1,
                (direct * np.cos(m * omega[..., None])).sum(-1) / direct.sum(-1),
                dual.sum(-1) / at_zero,
            )
        )

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        sigma = np.broadcast_to(self._sigma, (size, self._sigma.size))
        out = np.full(sigma.shape, np.nan)
        # rejection from the discrete Laplace of Canonne et al., algorithm 3
        while (todo := np.isnan(out)).any():
            s = sigma[todo]
            t = np.floor(s) + 1
            e = np.floor(rng.standard_exponential((2, s.size)) * t)
            k = e[0] - e[1]
            accept = rng.random(s.size) < np.exp(-((np.abs(k) - s * s / t) ** 2) / (2 * s * s))
            out[todo] = np.where(accept, k, np.nan)
        return out * self.steps


def log_theta(sigma: FloatArray) -> FloatArray:
    """log of sum_k exp(-k^2 / 2 sigma^2)."""
    k = np.arange(1, 41)
    narrow, wide = np.minimum(sigma, 1.0)[..., None], np.maximum(sigma, 1.0)[..., None]
    direct = np.log1p(2 * np.exp(-0.5 * (k / narrow) ** 2).sum(-1))
    dual = (
        np.log(sigma)
        + 0.5 * np.log(2 * np.pi)
        + np.log1p(2 * np.exp(-2 * (np.pi * k * wide) ** 2).sum(-1))
    )
    return np.asarray(np.where(sigma < 1, direct, dual))


def _upper_tail(k: FloatArray, sigma: FloatArray) -> FloatArray:
    """P(noise >= k) for whole k >= 0: a sum for small sigma, else the Euler-Maclaurin (midpoint)
    expansion of it.
    """
    x = k - 0.5
    # sum_{j >= k} f(j) = int_x^inf f + f'(x)/24 - 7 f'''(x)/5760 + ..., f the normal density.
    f = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    first = -x / sigma**2 * f
    third = (3 * x / sigma**4 - x**3 / sigma**6) * f
    tail = np.asarray(special.ndtr(-x / sigma) + first / 24 - 7 * third / 5760)
    for small in np.unique(sigma[sigma < 32]):
        j = np.arange(1300)  # 40 sigma at sigma = 32
        sums = np.cumsum(np.exp(-0.5 * (j / small) ** 2 - log_theta(small))[::-1])[::-1]
        here = sigma == small
        tail[here] = sums[np.minimum(k[here], 1299).astype(int)]
    return tail
