"""A patch of a posterior of two parameters: log densities on a grid that follows its box."""

from dataclasses import dataclass

import numpy as np

# its submodules are imported when they are used: they take longer than a posterior of one parameter
from noisewise.inference.grid.ranges import limits
from noisewise.model.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Patch:
    """Log densities on a grid of (s, t): psi2 = middle2 + half2 t, psi1 = polynomial
    ranges in t.
    """

    value: FloatArray  # (patches, dense over t, dense over s)
    collapsed: FloatArray  # the same
    outer: FloatArray  # (patches, 2): lowest and highest psi2
    inner: FloatArray  # (patches, 2, 4): coefficients in t of the lowest and the highest psi1
    error: FloatArray  # (patches,)
    points: IntArray  # (patches,)

    def take(self, rows: IntArray) -> "Patch":
        """Some of the patches."""
        value, collapsed, outer, inner = (
            field[rows] for field in (self.value, self.collapsed, self.outer, self.inner)
        )
        return Patch(value, collapsed, outer, inner, self.error[rows], self.points[rows])

    @property
    def log_mass(self) -> FloatArray:
        """Of each patch, up to a constant of its group."""
        low, high = limits(self.inner, np.linspace(-1, 1, self.value.shape[1]))
        top = self.value.max(axis=(1, 2))
        mass = (np.exp(self.value - top[:, None, None]) * (high - low)[:, :, None]).sum(axis=(1, 2))
        return np.asarray(
            top + np.log(mass * np.diff(self.outer)[:, 0]) - 2 * np.log(self.value.shape[1])
        )

    @property
    def hull(self) -> FloatArray:
        """The rectangle of each patch, (patches, 2, 2): lowest and highest psi1, lowest and highest
        psi2.
        """
        low, high = limits(self.inner, np.linspace(-1, 1, 17))
        return np.stack([np.stack([low.min(axis=1), high.max(axis=1)], axis=1), self.outer], axis=1)
