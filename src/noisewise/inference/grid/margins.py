"""Margins of patches, and draws from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# its submodules are imported when they are used: they take longer than a posterior of one parameter
import scipy

from noisewise.inference.grid import adaptive as grids
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.patch import Patch
from noisewise.inference.grid.ranges import limits
from noisewise.model.arrays import FloatArray, IntArray

NOTHING = 60.0
"""Between patches the density is e^-60 of what it is anywhere within."""
LOGITS, MARGIN_POINTS = 18.0, 241
"""A margin of the first parameter has so many points at first, at probabilities up to e^-18."""
MOST_POINTS = 1000
"""More are added where the density bends between them, until there are so many."""
COMB, MOST_BETWEEN, COMB_RANGE = 0.04, 32, 12.0
"""From row to row the first parameter may move by this share of the row, which is about ten sds of
it; rows are cut in so many at most. Rows of e^-12 of the highest do not count.
"""
Stretch = Callable[[FloatArray], FloatArray]
"""How much the first parameter moves per unit of psi1, at psi2; or by how much it exceeds that."""


def margins(
    sheets: Sequence[Patch], centre: float, stretch: Stretch, shift: Stretch
) -> tuple[Grid, Grid]:
    """The log densities of the first parameter's coordinate, centre + shift(psi2) + psi1
    stretch(psi2), and of psi2, of one group.
    """
    rows = [_Rows.of(sheet, stretch, shift) for sheet in sheets]
    top = max(float(one.row.max()) for one in rows)
    second = _mixed([(one.psi2, one.row) for one in rows])

    def log_density(at: FloatArray, _: IntArray) -> FloatArray:
        height = sum(one.density(at) * np.exp(one.top - top) for one in rows)
        return np.asarray(np.log(np.maximum(height, 1e-300)) + top)

    start = np.unique(np.concatenate([one.positions() for one in rows]))
    found = grids.refine(log_density, grids.begin(log_density, [start]), most=MOST_POINTS)
    # near a far centre several points may be one float
    psi, first = np.unique(centre + found.psi, return_index=True)
    return Grid(psi, found.value[first], np.array([0, psi.size])), second


def _mixed(parts: list[tuple[FloatArray, FloatArray]]) -> Grid:
    """The sum of densities, each given in the log on points of its own and 0 beyond them."""
    if len(parts) == 1:
        psi, value = parts[0]
        return Grid(psi, value, np.array([0, psi.size]))
    edges = [
        end + side * 1e-9 * (1 + abs(end))
        for psi, _ in parts
        for end, side in ((psi[0], -1), (psi[-1], 1))
    ]
    at = np.unique(np.concatenate([psi for psi, _ in parts] + [np.array(edges)]))
    total = np.full(at.size, min(float(value.min()) for _, value in parts) - NOTHING)
    for psi, value in parts:
        inside = (at >= psi[0]) & (at <= psi[-1])
        total[inside] = np.logaddexp(total[inside], np.interp(at[inside], psi, value))
    return Grid(at, total, np.array([0, at.size]))


@dataclass(frozen=True)
class _Rows:
    """One sheet as rows of constant psi2: on each the first parameter, from `low` to `high`, less
    the centre.
    """

    value: FloatArray  # (dense over t, dense over s), less its highest
    top: float
    psi2: FloatArray  # (dense,)
    low: FloatArray
    high: FloatArray
    size: FloatArray  # (dense,): of the stretch
    row: FloatArray  # (dense,): log mass of each row, per psi2

    @classmethod
    def of(cls, sheet: Patch, stretch: Stretch, shift: Stretch) -> "_Rows":
        value, top = sheet.value[0], float(sheet.value[0].max())
        between = _between(sheet, stretch, shift)
        if between > 1:
            value = _more_rows(np.maximum(value, top - NOTHING), between)
        unit = np.linspace(-1, 1, len(value))
        low, high = (side[0] for side in limits(sheet.inner, unit))
        psi2 = sheet.outer[0].mean() + np.diff(sheet.outer[0]) / 2 * unit
        # a row may be far below the peak
        held = np.maximum(np.exp(value - top) @ _trapezoid(value.shape[1]), 1e-300)
        size, more = stretch(psi2), shift(psi2)
        return cls(
            value - top,
            top,
            psi2,
            low * size + more,
            high * size + more,
            size,
            np.log(held * (high - low) / 2) + top,
        )

    def positions(self) -> FloatArray:
        """Where the first parameter's density is computed: evenly in the logit of its own
        distribution, and at its ends.
        """
        share = np.linspace(0, 1, 65)
        at = self.low[:, None] + (self.high - self.low)[:, None] * share
        place = share * (self.value.shape[1] - 1)
        near = self.value[:, np.round(place).astype(np.int64)]
        mass = np.exp(near) * (self.high - self.low)[:, None] / self.size[:, None]
        order = np.argsort(at, axis=None)
        flat, weight = at.ravel()[order], mass.ravel()[order] + 1e-300
        below = (np.cumsum(weight) - weight / 2) / weight.sum()
        levels = scipy.special.expit(np.linspace(-LOGITS, LOGITS, MARGIN_POINTS))
        ends = np.array([flat[0], flat[-1]])
        return np.asarray(np.unique(np.concatenate([np.interp(levels, below, flat), ends])))

    def density(self, at: FloatArray) -> FloatArray:
        """Of the first parameter, times e^-top."""
        width = np.maximum(self.high - self.low, 1e-300)
        inside = (2 * at[None, :] - (self.low + self.high)[:, None]) / width[:, None]  # (t, points)
        height = _interpolate_rows(self.value[None], inside[None])[0] / self.size[:, None]
        step = (self.psi2[-1] - self.psi2[0]) / 2
        return np.asarray(_trapezoid(self.psi2.size) @ height * step)


def _between(sheet: Patch, stretch: Stretch, shift: Stretch) -> int:
    """In how many the space between two rows must be cut, so that the first parameter moves from
    one to the next by little of what it spreads over in each: else its density would be a comb.
    """
    dense = sheet.value.shape[1]
    unit = np.linspace(-1, 1, dense)
    low, high = (side[0] for side in limits(sheet.inner, unit))
    psi2 = sheet.outer[0].mean() + np.diff(sheet.outer[0]) / 2 * unit
    middle, width = (low + high) / 2 * stretch(psi2) + shift(psi2), (high - low) * stretch(psi2)
    best = sheet.value[0].max(axis=1)
    matters = (best[1:] > best.max() - COMB_RANGE) & (width[1:] > 0)
    with np.errstate(all="ignore"):
        moved = np.abs(np.diff(middle))[matters] / width[1:][matters]
    return int(np.clip(np.ceil(moved.max(initial=0.0) / COMB), 1, MOST_BETWEEN))


def _more_rows(value: FloatArray, between: int) -> FloatArray:
    """A table of log densities with so many times as many rows, by cubic splines."""
    rows = np.arange(float(len(value)))
    fine = np.linspace(0, len(value) - 1, (len(value) - 1) * between + 1)
    return np.asarray(scipy.interpolate.CubicSpline(rows, value, axis=0)(fine))


def _trapezoid(dense: int) -> FloatArray:
    """Weights of the trapezoidal rule on [-1, 1]."""
    weight = np.full(dense, 2.0 / (dense - 1))
    weight[[0, -1]] /= 2
    return weight


def _interpolate_rows(log_values: FloatArray, inside: FloatArray) -> FloatArray:
    """exp of each row's log density (cubic in s) at positions s = inside; 0 beyond [-1, 1]."""
    dense = log_values.shape[2]
    position = np.clip((inside + 1) / 2 * (dense - 1), 0, dense - 1 - 1e-9)
    i = position.astype(np.int64)
    x = position - i
    g = np.arange(log_values.shape[0])[:, None, None]
    t = np.arange(log_values.shape[1])[None, :, None]
    p0, p1 = log_values[g, t, np.maximum(i - 1, 0)], log_values[g, t, i]
    p2, p3 = (
        log_values[g, t, np.minimum(i + 1, dense - 1)],
        log_values[g, t, np.minimum(i + 2, dense - 1)],
    )
    cubic = p1 + 0.5 * x * (
        p2 - p0 + x * (2 * p0 - 5 * p1 + 4 * p2 - p3 + x * (3 * (p1 - p2) + p3 - p0))
    )
    linear = p1 + x * (p2 - p1)
    curve = np.where(np.abs(p2 - p1) + np.abs(p1 - p0) + np.abs(p3 - p2) > 20, linear, cubic)
    return np.where(np.abs(inside) <= 1 + 1e-9, np.exp(np.minimum(curve, 50.0)), 0.0)


def draw(sheet: Patch, psi2: FloatArray, rng: np.random.Generator) -> FloatArray:
    """psi1 given each psi2: from the row of the grid next to psi2, chosen in proportion to
    nearness.
    """
    outer, dense = sheet.outer[0], sheet.value.shape[1]
    t = np.clip((2 * psi2 - outer.sum()) / (outer[1] - outer[0]), -1, 1)
    position = (t + 1) / 2 * (dense - 1)
    row = np.minimum(np.floor(position + rng.random(psi2.size)), dense - 1).astype(np.int64)
    values = sheet.value[0]
    height = np.exp(values - values.max(axis=1, keepdims=True))
    mass = (height[:, :-1] + height[:, 1:]) / 2
    cumulative = np.concatenate([np.zeros((dense, 1)), np.cumsum(mass, axis=1)], axis=1)
    cumulative /= cumulative[:, -1:]
    ladder = (cumulative * (1 - 1e-12) + np.arange(dense)[:, None]).ravel()
    u = rng.random(psi2.size)
    i = np.clip(
        np.searchsorted(ladder, row + u * (1 - 1e-12), side="right") - 1 - row * dense, 0, dense - 2
    )
    c0, c1 = cumulative[row, i], cumulative[row, i + 1]
    h0, h1 = height[row, i], height[row, i + 1]
    share = np.clip((u - c0) / np.maximum(c1 - c0, 1e-300), 0, 1)
    # The density is straight within a cell: solve h0 x + (h1 - h0) x^2/2 = share (h0 + h1)/2.
    x = (
        share
        * (h0 + h1)
        / np.maximum(h0 + np.sqrt(np.maximum(h0**2 + share * (h1**2 - h0**2), 0)), 1e-300)
    )
    s = -1 + 2 * (i + np.clip(x, 0, 1)) / (dense - 1)
    low, high = limits(sheet.inner, t)
    return np.asarray((low[0] + high[0]) / 2 + (high[0] - low[0]) / 2 * s)
