"""Piecewise cubic tables of one and of two coordinates, for NumPy and for JAX alike: twice
differentiable inside, straight and never rising beyond.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import scipy

from noisewise.model.arrays import FloatArray, Namespace


@final
@dataclass(frozen=True)
class Line:
    """A cubic spline through values at increasing points."""

    at: FloatArray  # (points,)
    value: FloatArray

    @cached_property
    def _cubics(self) -> FloatArray:
        """(cells, 4), the constant first."""
        return np.ascontiguousarray(scipy.interpolate.CubicSpline(self.at, self.value).c[::-1].T)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The slopes beyond, which do not rise outward."""
        slope = scipy.interpolate.CubicSpline(self.at, self.value)(self.at[[0, -1]], 1)
        return max(float(slope[0]), 0.0), min(float(slope[1]), 0.0)

    def __call__(self, psi: Any, xp: Namespace = np) -> Any:
        """At psi of any shape."""
        low, high = float(self.at[0]), float(self.at[-1])
        inside = xp.clip(psi, low, high)
        knots, cubics = xp.asarray(self.at), xp.asarray(self._cubics)
        i = xp.clip(xp.searchsorted(knots, inside, side="right") - 1, 0, len(self.at) - 2)
        x, c = inside - knots[i], cubics[i]
        value = c[..., 0] + x * (c[..., 1] + x * (c[..., 2] + x * c[..., 3]))
        left, right = self._ends
        return value + left * xp.minimum(psi - low, 0.0) + right * xp.maximum(psi - high, 0.0)


@final
@dataclass(frozen=True)
class Sheet:
    """A cubic spline in either coordinate through values on an even grid of [-1, 1]^2."""

    value: FloatArray  # (points of t, points of s)

    @cached_property
    def _cubics(self) -> FloatArray:
        """(cells of t, cells of s, 4, 4), the constants first."""
        unit = np.linspace(-1, 1, len(self.value))
        rows = scipy.interpolate.CubicSpline(unit, self.value, axis=0).c[::-1]  # (4, t, points)
        both = scipy.interpolate.CubicSpline(unit, rows, axis=2).c[::-1]  # (4, s, 4, t)
        return np.ascontiguousarray(both.transpose(3, 1, 2, 0))

    def __call__(self, t: Any, s: Any, xp: Namespace = np) -> Any:
        """At t and s of one shape."""
        cells = len(self.value) - 1
        cubics = xp.asarray(self._cubics)

        def cell(x: Any) -> tuple[Any, Any]:
            inside = xp.clip(x, -1.0, 1.0)
            place = (inside + 1) / 2 * cells
            i = xp.clip(xp.floor(place).astype(int), 0, cells - 1)
            return i, inside - (i * (2 / cells) - 1)

        i, x = cell(t)
        j, z = cell(s)
        c = cubics[i, j]  # (..., 4 of t, 4 of s)
        x, z = x[..., None], z[..., None]
        across = c[..., 0] + z * (c[..., 1] + z * (c[..., 2] + z * c[..., 3]))
        sloped = c[..., 1] + z * (2 * c[..., 2] + 3 * z * c[..., 3])
        powers = xp.concatenate([x**0, x, x**2, x**3], axis=-1)
        slopes = xp.concatenate([0 * x, x**0, 2 * x, 3 * x**2], axis=-1)
        value = (across * powers).sum(-1)
        in_t, in_s = (across * slopes).sum(-1), (sloped * powers).sum(-1)
        for slope, coordinate in ((in_t, t), (in_s, s)):
            value = value + xp.maximum(slope, 0.0) * xp.minimum(coordinate + 1, 0.0)
            value = value + xp.minimum(slope, 0.0) * xp.maximum(coordinate - 1, 0.0)
        return value
