"""One-dimensional densities read off their grids: means, sds, quantiles and draws of many groups at
once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.grid.masses import PARTS, Masses
from noisewise.model.arrays import FloatArray

QUANTILES = (0.05, 0.5, 0.95)
"""Those that every summary states; the middle one is the median."""
TAIL = 2 * PARTS
"""The tail's power law is read off its last two cells."""
STEEPER = 1.25
"""A tail that seems this much steeper than it can be far out is so; one that seems less steep is
not yet at its tail.
"""
NOTICED = 1e-4
"""A tail is looked at if its end holds this share of the moment."""
SLOW = 0.08
"""A power law this close to one without the moment is taken for one without."""


@dataclass(frozen=True)
class Marginal:
    """Densities of theta = axis.theta(psi), one for each group; theta may rise or fall with psi."""

    of_psi: Masses
    axis: Axis
    index: FloatArray | None = None
    """(groups,): far out theta has the density |theta|^-index, or falls faster. None where nothing
    is known.
    """

    @classmethod
    def of(
        cls,
        grid: Grid,
        axis: Axis,
        decay: FloatArray | None = None,
        index: FloatArray | None = None,
    ) -> "Marginal":
        """Interpolate a grid; `decay` is how fast the log density falls beyond the last floats of
        theta.
        """
        return cls(Masses.of(grid, axis.range, decay), axis, index)

    @property
    def groups(self) -> int:
        """How many densities there are."""
        return self.of_psi.groups

    @cached_property
    def _figures(self) -> FloatArray:
        """The quantiles of a summary, (groups, 3)."""
        return self.quantile(np.array(QUANTILES))

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of theta, each (groups,); infinite where the tail is so heavy that there is
        none.
        """
        known = self.of_psi
        # About the median, so that a far centre does not cost digits.
        centre = self._figures[:, QUANTILES.index(0.5)]
        half = known.mass / 2
        with np.errstate(over="ignore", invalid="ignore"):  # of a tail that no float holds
            x = self.axis.theta(known.points) - centre[known.group]
            first, second, size = (
                known.total_of(half * each.sum(axis=0)) for each in (x, x * x, np.abs(x))
            )
        more = self._beyond(centre, np.stack([size, second]))
        with np.errstate(all="ignore"):  # infinite where there is no such moment
            shift, square = first + more[0], second + more[1]
            away = x - shift[known.group]
            spread = known.total_of(half * (away * away).sum(axis=0))
            sd = np.where(
                np.isfinite(square),
                np.sqrt(np.maximum(spread + more[1] - more[0] ** 2, 0.0)),
                np.inf,
            )
            # numbers out of reach, which no heavy tail explains
            lost = np.isnan(first + second + centre)
            mean = np.where(np.isfinite(shift), centre + shift, np.inf)
        return np.where(lost, np.nan, mean), np.where(lost, np.nan, sd)

    def _beyond(self, centre: FloatArray, inside: FloatArray) -> FloatArray:
        """What the tails beyond the grid add to E (theta - centre)^k for k = 1 and 2, (2, groups),
        each taken for a power law; infinite if it diverges.

        A tail counts only if what is left at its end could matter for the moments `inside`.
        """
        known, power = self.of_psi, np.array([[1], [2]])
        out = np.zeros(inside.shape)
        first, end = known.start[:-1], known.start[1:] - 1
        for side, last in ((-1, first), (1, end)):  # of psi
            sign = -side if self.axis.falls else side  # of theta
            if np.isfinite(self.axis.upper if sign > 0 else self.axis.lower):
                continue
            at = np.stack([last, np.clip(last - side * TAIL, first, end)])
            psi = known.psi[at]
            with np.errstate(all="ignore"):
                far, near = np.abs(self.axis.theta(psi) - centre)
                height = np.exp(known.log_density[at] - self.axis.log_jacobian(psi))
                # as it seems at the end of the grid
                index = np.log(height[1] / height[0]) / np.log(far / near)
                if self.index is not None:  # the end of a grid is a little steeper than the tail
                    index = np.where(index > STEEPER * self.index, index, self.index)
                left = height[0] * far ** (power + 1)
                matters = (left > NOTICED * np.abs(inside)) & (far > near)
                found = np.where(index > power + 1 + SLOW, left / (index - power - 1), np.inf)
                out += np.where(matters & ~np.isnan(found), sign**power * found, 0.0)
        return np.where(np.isfinite(out), out, np.inf)

    @cached_property
    def summary(self) -> FloatArray:
        """Mean, sd and the quantiles of a summary, (groups, 5)."""
        return np.column_stack([*self.moments, self._figures])

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of theta, (groups, len(q))."""
        share = 1 - np.asarray(q, dtype=float) if self.axis.falls else np.asarray(q, dtype=float)
        wanted = np.broadcast_to(share, (self.groups, np.size(q)))
        group = np.broadcast_to(np.arange(self.groups)[:, None], wanted.shape)
        return self.axis.theta(self.of_psi.quantile(wanted, group))

    def draw(self, rng: np.random.Generator, size: int, group: int) -> FloatArray:
        """Independent draws of theta from one group."""
        return self.axis.theta(self.of_psi.quantile(rng.random(size), np.full(size, group)))

    def cdf(self, theta: FloatArray) -> FloatArray:
        """P(parameter <= theta) in each group, for theta of shape (groups,) or (groups, k)."""
        theta = np.asarray(theta, dtype=float)
        group = np.broadcast_to(np.arange(self.groups), theta.shape[::-1]).T.ravel()
        with np.errstate(divide="ignore", invalid="ignore"):
            psi = np.nan_to_num(self.axis.psi(theta.ravel()))
        mass = self.of_psi.below(psi, group)
        mass = 1 - mass if self.axis.falls else mass
        mass = np.where(theta.ravel() <= self.axis.lower, 0.0, mass)
        mass = np.where(theta.ravel() >= self.axis.upper, 1.0, mass)
        return np.asarray(mass.reshape(theta.shape))

    def curve(self, group: int, tail: float = 0.002) -> tuple[FloatArray, FloatArray]:
        """theta, rising, and its density there, without the last of either tail."""
        rows = self.of_psi.rows(group)
        psi = self.of_psi.psi[rows]
        with np.errstate(over="ignore"):  # of a tail that no float holds, which is cut off
            theta = self.axis.theta(psi)
            height = np.exp(self.of_psi.log_density[rows] - self.axis.log_jacobian(psi))
        low, high = self.quantile(np.array([tail, 1 - tail]))[group]
        keep = (theta >= low) & (theta <= high)
        along = slice(None, None, -1 if self.axis.falls else 1)
        return theta[keep][along], height[keep][along]
