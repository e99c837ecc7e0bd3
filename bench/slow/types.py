"""What the modules of the oracle share: arrays, problems, answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Problem = dict[str, Any]


@dataclass(frozen=True)
class Marginal:
    """A distribution function on a grid of theta, with what lies beyond its ends."""

    theta: Array
    cdf: Array
    known: tuple[float, float] | None = None
    """Mean and sd, where they are known better than from the grid."""

    def probability(self, theta: Array) -> tuple[Array, Array]:
        """P(< theta) and P(<= theta), apart only where a jump lies at theta, give or take a
        rounding.
        """
        theta = np.asarray(theta, dtype=float)
        near = 1e-12 * np.abs(theta) + 1e-290
        low = np.interp(theta - near, self.theta, self.cdf, left=0.0, right=1.0)
        high = np.interp(theta + near, self.theta, self.cdf, left=0.0, right=1.0)
        return low, high

    def quantile(self, q: Array) -> Array:
        return np.interp(q, self.cdf, self.theta)

    def moments(self) -> tuple[float, float]:
        """Mean and sd; from the grid, theta is even between its points."""
        if self.known is not None:
            return self.known
        with np.errstate(over="ignore", invalid="ignore"):
            mass, middle = np.diff(self.cdf), 0.5 * (self.theta[1:] + self.theta[:-1])
            mass = np.concatenate([[self.cdf[0]], mass, [1 - self.cdf[-1]]])
            middle = np.concatenate([self.theta[:1], middle, self.theta[-1:]])
            mean = float((mass[mass > 0] * middle[mass > 0]).sum())
            return mean, float(np.sqrt((mass[mass > 0] * (middle[mass > 0] - mean) ** 2).sum()))


@dataclass(frozen=True)
class Answer:
    """Marginals by name, and how far the oracle trusts itself: an error of distribution
    functions.
    """

    marginals: dict[str, Marginal]
    error: float
    note: str = ""
