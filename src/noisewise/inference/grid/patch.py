"""A patch of a posterior of two parameters: log densities on a grid that follows its box."""

from dataclasses import dataclass, replace

import numpy as np

# its submodules are imported when they are used: they take longer than a posterior of one parameter
from noisewise.inference.grid.ranges import limits
from noisewise.model.arrays import BoolArray, FloatArray, IntArray


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
    def areas(self) -> FloatArray:
        """Of the cell about each row's points, (patches, rows, 1)."""
        dense = self.value.shape[1]
        low, high = limits(self.inner, np.linspace(-1, 1, dense))
        return np.asarray((high - low)[:, :, None] * np.diff(self.outer)[:, :, None] / dense**2)

    @property
    def log_mass(self) -> FloatArray:
        """Of each patch, up to a constant of its group."""
        top = self.value.max(axis=(1, 2))
        mass = (np.exp(self.value - top[:, None, None]) * self.areas).sum(axis=(1, 2))
        return np.asarray(top + np.log(mass))

    @property
    def cell(self) -> float:
        """The area of a grid cell at the peak of the first patch."""
        row = int(np.argmax(self.value[0])) // self.value.shape[1]
        return float(self.areas[0, row, 0])

    def holds(self, psi: FloatArray) -> BoolArray:
        """Whether points, (..., 2), lie within the box of the first patch."""
        low, high = self.outer[0]
        t = (2 * psi[..., 1] - low - high) / (high - low)
        left, right = (side.reshape(t.shape) for side in limits(self.inner[:1], t.reshape(1, -1)))
        return np.asarray((np.abs(t) <= 1) & (psi[..., 0] >= left) & (psi[..., 0] <= right))

    def without(self, taken: BoolArray, depth: float) -> "Patch":
        """The first patch, with those points of its grid `depth` below the peak, in the log."""

        def cut(value: FloatArray) -> FloatArray:
            return np.where(taken & (value > value.max() - depth), value.max() - depth, value)

        return replace(self, value=cut(self.value), collapsed=cut(self.collapsed))
