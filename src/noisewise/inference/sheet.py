"""The posterior of two parameters, for many groups at once: the second parameter outside, the first within.

A cheap pilot likelihood finds, for every value of the second parameter, the range of the first: a grid of two
parameters in a rectangle would miss funnels. In coordinates (s, t) of [-1, 1]^2 that follow this range, the collapsed
log posterior is had on a dense grid (`_filled`), and the exact one at few points of it: their difference is smooth. Where
splines through the few points would tell another story than through fewer, there are more, in the end all that matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # its submodules are imported when they are used: they take longer than a posterior of one parameter
from numpy.typing import NDArray

from noisewise.inference import grid as grids
from noisewise.inference.grid import Grid
from noisewise.inference.line import Exact
from noisewise.model.arrays import FloatArray, IntArray

DENSE = (49, 97, 193)
"""Rows and columns of the dense grid; the finer ones are for posteriors with a narrow part in a wide range."""
PER_CELL = 1.5
"""Dense points in the narrowest cell that the pilot's own grid needed near its peak."""
FIRST_STRIDE = 8
"""The exact likelihood is had at every eighth row and column of the smallest dense grid, then at every fourth, ..."""
AGREE, SHRINKS = 0.05, 10.0
"""A stride is fine enough if it moved the log density, weighted by the density, no more than this; splines err by a tenth of it."""
RANGE = 14.0
TIGHTENED, ROOMY = 4, 0.3
"""How often the box is drawn closer where less than this share of it matters."""
SMOOTH = 0.01
"""Splines through half of the points may err by this, weighted by the density; through all of them they err far less."""
HOPELESS = 60.0
"""Where the pilot is this far below its peak, the collapsed likelihood is not had: however correlated, it would be half as far."""
MATTERS = 10.0
"""Where the density is below e^-10 of its peak, the difference is held as it is nearby."""
LOOSEST = 4.0
"""An error there counts e^-10 of one at the peak, and may be up to e^4 times as large."""
TAMED = 15.0
PILOT_STRAIGHT, PILOT_MOST, NARROW = 1.0, 150, 3.0

BoolArray = NDArray[np.bool_]
Likelihood = Callable[[FloatArray, IntArray], FloatArray]
"""(psi of shape (points, 2), groups) -> log density."""


@dataclass(frozen=True)
class Sheet:
    """Log densities on a grid of (s, t): psi2 = middle2 + half2 t, psi1 = polynomial ranges in t."""

    value: FloatArray  # (groups, dense over t, dense over s)
    collapsed: FloatArray  # the same
    outer: FloatArray  # (groups, 2): lowest and highest psi2
    inner: FloatArray  # (groups, 2, 4): coefficients in t of the lowest and the highest psi1
    error: FloatArray  # (groups,)
    points: IntArray  # (groups,)

    def take(self, group: int) -> "Sheet":
        """One group."""
        rows = slice(group, group + 1)
        value, collapsed, outer, inner = (field[rows] for field in (self.value, self.collapsed, self.outer, self.inner))
        return Sheet(value, collapsed, outer, inner, self.error[rows], self.points[rows])


def solve(
    log_prior: Likelihood, pilot: Likelihood, collapsed: Likelihood, exact: Exact | None, psi1: FloatArray, psi2: FloatArray
) -> list[tuple[IntArray, Sheet]]:
    """Sheets of one size each, with the groups that they hold; psi1 and psi2 are first grids, (groups, points) each."""
    outer, inner, need = _box(lambda at, group: log_prior(at, group) + pilot(at, group), psi1, psi2)
    size = np.searchsorted(np.array(DENSE[:-1]) - 1, PER_CELL * need)
    out = []
    for nth in np.unique(size):
        members = np.flatnonzero(size == nth)

        def approximate(at: FloatArray, group: IntArray, members: IntArray = members) -> FloatArray:
            owner = members[group]
            value = log_prior(at, owner) + pilot(at, owner)
            best = np.full(len(psi1), -np.inf)
            np.fmax.at(best, owner, value)
            near = ~(value < best[owner] - HOPELESS)
            value[near] = log_prior(at[near], owner[near]) + collapsed(at[near], owner[near])
            return np.nan_to_num(value, nan=grids.LOWEST, neginf=grids.LOWEST)

        def both(
            at: FloatArray, group: IntArray, slack: FloatArray | None = None, members: IntArray = members
        ) -> tuple[FloatArray, FloatArray]:
            assert exact is not None
            likelihood, rest = exact(at, members[group], slack)
            return likelihood + log_prior(at, members[group]), rest

        sheet, psi = _collapsed(approximate, outer[members], inner[members], DENSE[nth])
        out.append((members, sheet if exact is None else _exact(both, sheet, psi)))
    return out


def _collapsed(approximate: Likelihood, outer: FloatArray, inner: FloatArray, dense: int) -> tuple[Sheet, FloatArray]:
    """The collapsed log density on dense grids, and where their points are, in boxes drawn close around it."""
    groups, unit = len(outer), np.linspace(-1, 1, dense)
    value, psi = np.empty((groups, dense, dense)), np.empty((groups, dense, dense, 2))
    todo = np.arange(groups)
    for left in reversed(range(TIGHTENED)):
        psi[todo] = _nodes(unit, outer[todo], inner[todo])
        value[todo] = _filled(approximate, psi[todo], todo)
        if left:
            todo = np.array([g for g in todo if _tighten(value[g], psi[g, :, :, 0], outer[g], inner[g])], dtype=np.int64)
        if todo.size == 0:
            break
    return Sheet(value, value, outer, inner, np.zeros(groups), np.zeros(groups, dtype=np.int64)), psi


def _filled(approximate: Likelihood, psi: FloatArray, groups: IntArray) -> FloatArray:
    """The log density at every second row and column; at the others by splines, or itself where splines through fewer err."""
    dense = psi.shape[1]
    some = psi[:, ::2, ::2]
    count = some.shape[1]
    known = approximate(some.reshape(-1, 2), np.repeat(groups, count * count)).reshape(-1, count, count)
    top = known.max(axis=(1, 2), keepdims=True)
    tame = np.maximum(known, top - HOPELESS)  # below it nothing matters, and a cliff would ring
    fewer, all_points = _splines(count // 2 + 1, count), _splines(count, dense)
    miss = np.abs(fewer @ tame[:, ::2, ::2] @ fewer.T - tame) * np.exp(tame - top)
    value = np.asarray(all_points @ tame @ all_points.T)
    rough = scipy.ndimage.maximum_filter(miss > SMOOTH, size=(1, 5, 5)).repeat(2, axis=1).repeat(2, axis=2)[:, :dense, :dense]
    rough[:, ::2, ::2], value[:, ::2, ::2] = False, known
    group, i, j = np.nonzero(rough)
    if group.size:
        value[group, i, j] = approximate(psi[group, i, j], groups[group])
    return value


def _exact(exact: Exact, start: Sheet, psi: FloatArray) -> Sheet:
    """The exact log density: at few points of the dense grid, and at more until they tell the same story."""
    base, value, error, points = start.value, start.value.copy(), start.error.copy(), start.points.copy()
    groups, dense = base.shape[:2]
    gap, todo, earlier = np.full(base.shape, np.nan), np.arange(groups), base
    stride = first = FIRST_STRIDE * (dense - 1) // (DENSE[0] - 1)
    while todo.size:
        group, i, j = np.nonzero(_nearby(value[todo], stride) & np.isnan(gap[todo][:, ::stride, ::stride]))
        group, i, j = todo[group], i * stride, j * stride
        below = value.max(axis=(1, 2))[group] - value[group, i, j]
        posterior, rest = exact(psi[group, i, j], group, np.exp(np.minimum(below, LOOSEST)))
        points += np.bincount(group, minlength=groups)
        gap[group, i, j] = np.nan_to_num(posterior - base[group, i, j], nan=-np.inf)
        for g in todo:
            value[g] = base[g] + _spread(gap[g, ::stride, ::stride], value[g, ::stride, ::stride], dense)
        top = value.max(axis=(1, 2), keepdims=True)
        weight = np.exp(np.minimum(posterior - top[group, 0, 0], 0.0))
        np.maximum.at(error, group, np.minimum(rest, 1.0) * np.nan_to_num(weight))
        miss = (np.abs(value[todo] - earlier) * np.exp(value[todo] - top[todo])).max(axis=(1, 2))
        settled = (miss < AGREE) & (stride < first) | (stride == 1)
        error[todo[settled]] += 0.0 if stride == 1 else np.minimum(miss[settled], 1.0) / SHRINKS
        todo, stride = todo[~settled], stride // 2
        earlier = value[todo].copy()
    return Sheet(value, base, start.outer, start.inner, error, points)


def _nearby(value: FloatArray, stride: int) -> BoolArray:
    """Which points of every stride-th row and column lie next to one that matters."""
    matters = value >= value.max(axis=(1, 2), keepdims=True) - MATTERS
    return np.asarray(scipy.ndimage.maximum_filter(matters, size=(1, 2 * stride + 1, 2 * stride + 1))[:, ::stride, ::stride])


def _spread(gap: FloatArray, value: FloatArray, dense: int) -> FloatArray:
    """A coarse table of differences made dense by cubic splines; what is not known is as at the nearest point that is."""
    known = np.isfinite(gap)
    if not known.any():
        return np.zeros((dense, dense))
    middle = gap.flat[np.argmax(np.where(known, value, -np.inf))]
    nearest = scipy.ndimage.distance_transform_edt(~known, return_distances=False, return_indices=True)
    full = np.clip(gap[tuple(nearest)], middle - TAMED, middle + TAMED)
    table = _splines(gap.shape[0], dense)
    return np.asarray(table @ full @ table.T)


@cache
def _splines(count: int, dense: int) -> FloatArray:
    """From values at `count` even points to `dense` ones."""
    return np.asarray(scipy.interpolate.CubicSpline(np.linspace(-1, 1, count), np.eye(count))(np.linspace(-1, 1, dense)))


def _box(pilot: Likelihood, psi1: FloatArray, psi2: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The range of psi2, and of psi1 given psi2, that holds the pilot posterior; and in how many cells the narrowest part goes."""
    groups = len(psi1)
    found: list[tuple[FloatArray, ...]] = []

    def marginal(at: FloatArray, group: IntArray) -> FloatArray:
        def given(first: FloatArray, row: IntArray) -> FloatArray:
            return pilot(np.stack([first, at[row]], axis=-1), group[row])

        start = grids.begin(given, psi1[group])
        grid = grids.refine(given, start, PILOT_STRAIGHT, PILOT_MOST)
        best = grid.best
        row = grid.group
        width = np.diff(grid.psi, append=grid.psi[-1])
        width[grid.start[1:] - 1] = 0.0
        height = np.exp(grid.value - best[row])
        mass = np.add.reduceat(width * (height + np.append(height[1:], 0.0)) / 2, grid.start[:-1])
        found.append((group.astype(float), at, *grid.extent(RANGE), grid.narrowest(NARROW)))
        return np.asarray(best + np.log(np.maximum(mass, 1e-300)))

    grid = grids.refine(marginal, grids.begin(marginal, psi2), PILOT_STRAIGHT, PILOT_MOST)
    outer = np.stack(grid.extent(RANGE), axis=1)
    group, at, low, high, cell = (np.concatenate(columns) for columns in zip(*found, strict=True))
    need = (outer[:, 1] - outer[:, 0]) / grid.narrowest(NARROW)
    near = np.array([grid.extent(NARROW)])[0]
    inner = np.zeros((groups, 2, 4))
    for g in range(groups):
        here = (group == g) & (at >= outer[g, 0]) & (at <= outer[g, 1])
        t = (2 * at[here] - outer[g].sum()) / (outer[g, 1] - outer[g, 0])
        inner[g] = _ranges(t, low[here], high[here])
        close = (group == g) & (at >= near[0, g]) & (at <= near[1, g])
        need[g] = max(need[g], np.max((high - low)[close] / cell[close]))
    return outer, inner, need


def _tighten(value: FloatArray, psi1: FloatArray, outer: FloatArray, inner: FloatArray) -> bool:
    """Draw the box of one group closer around what matters, in place, if it is too wide; psi1 is (dense t, dense s)."""
    dense = len(value)
    matters = value >= value.max() - RANGE
    wide = scipy.ndimage.binary_dilation(matters)
    rows, columns = np.flatnonzero(wide.any(axis=1)), np.flatnonzero(wide.any(axis=0))
    if wide.sum() > ROOMY * wide.size or min(rows.size, columns.size) < 2:
        return False
    t = np.linspace(-1, 1, dense)[rows]
    low = psi1[rows, np.argmax(wide[rows], axis=1)]
    high = psi1[rows, dense - 1 - np.argmax(wide[rows, ::-1], axis=1)]
    middle, half = outer.mean(), np.diff(outer)[0] / 2
    outer[:] = middle + half * t[[0, -1]]
    inner[:] = _ranges((2 * t - t[0] - t[-1]) / (t[-1] - t[0]), low, high)
    return True


def _ranges(t: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Smooth limits in t that hold all of [low, high]: a cubic through each, moved outward."""
    powers = t[:, None] ** np.arange(min(4, t.size))
    out = np.zeros((2, 4))
    for side, edge, sign in ((0, low, -1.0), (1, high, 1.0)):
        fit = np.linalg.lstsq(powers, edge, rcond=None)[0]
        out[side, : fit.size] = fit
        out[side, 0] += sign * np.max(sign * (edge - powers @ fit)) + sign * 1e-9 * (1 + np.abs(edge).max())
    return out


def limits(inner: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lowest and highest psi1 at t, (groups, len(t)) each, for t of shape (len,) or (groups, len)."""
    t = np.broadcast_to(t, (len(inner), np.shape(t)[-1]))
    powers = t[:, :, None] ** np.arange(4)
    low = np.einsum("gtk,gk->gt", powers, inner[:, 0])
    high = np.einsum("gtk,gk->gt", powers, inner[:, 1])
    return low, np.maximum(high, low + 1e-9 * (1 + np.abs(low)))


def _nodes(unit: FloatArray, outer: FloatArray, inner: FloatArray) -> FloatArray:
    """psi at the tensor grid of unit x unit: (groups, t, s, 2)."""
    low, high = limits(inner, unit)
    first = (low + high)[:, :, None] / 2 + (high - low)[:, :, None] / 2 * unit
    second = outer.sum(axis=1)[:, None] / 2 + np.diff(outer, axis=1) / 2 * unit
    return np.stack([first, np.broadcast_to(second[:, :, None], first.shape)], axis=-1)


def margins(sheet: Sheet, values: FloatArray) -> tuple[Grid, Grid]:
    """The log densities of psi1 and of psi2, each on a grid of its own."""
    groups, dense = values.shape[:2]
    unit = np.linspace(-1, 1, dense)
    low, high = limits(sheet.inner, unit)
    top = values.max(axis=(1, 2), keepdims=True)
    trapezoid = np.full(dense, 2.0 / (dense - 1))
    trapezoid[[0, -1]] /= 2
    held = np.maximum(np.einsum("gts,s->gt", np.exp(values - top), trapezoid), 1e-300)  # a row may be far below the peak
    row = np.log(held) + np.log((high - low) / 2) + top[:, :, 0]
    psi2 = sheet.outer.sum(axis=1)[:, None] / 2 + np.diff(sheet.outer, axis=1) / 2 * unit
    second = Grid(psi2.ravel(), row.ravel(), np.arange(groups + 1) * dense)
    edges = _first_points(low, high, row)
    count = edges.shape[1]
    inside = (2 * edges[:, None, :] - (low + high)[:, :, None]) / (high - low)[:, :, None]  # (groups, t, count)
    height = _interpolate_rows(values - top, inside)
    mass = np.einsum("gtc,t->gc", height, trapezoid)
    first = Grid(edges.ravel(), (np.log(np.maximum(mass, 1e-300)) + top[:, 0]).ravel(), np.arange(groups + 1) * count)
    return first, second


def _first_points(low: FloatArray, high: FloatArray, row: FloatArray) -> FloatArray:
    """Increasing points of psi1: half evenly over the whole range, half over that of the heaviest row."""
    dense = row.shape[1]
    g, best = np.arange(len(row)), np.argmax(row, axis=1)
    whole = low.min(axis=1), high.max(axis=1)
    heaviest = low[g, best], high[g, best]
    spans = (whole, np.linspace(0, 1, dense)), (heaviest, np.linspace(0, 1, dense + 1)[1:-1])
    return np.sort(np.concatenate([a[:, None] + (b - a)[:, None] * share for (a, b), share in spans], axis=1), axis=1)


def _interpolate_rows(log_values: FloatArray, inside: FloatArray) -> FloatArray:
    """exp of each row's log density (cubic in s) at positions s = inside; 0 beyond [-1, 1]."""
    dense = log_values.shape[2]
    position = np.clip((inside + 1) / 2 * (dense - 1), 0, dense - 1 - 1e-9)
    i = position.astype(np.int64)
    x = position - i
    g = np.arange(log_values.shape[0])[:, None, None]
    t = np.arange(log_values.shape[1])[None, :, None]
    p0, p1 = log_values[g, t, np.maximum(i - 1, 0)], log_values[g, t, i]
    p2, p3 = log_values[g, t, np.minimum(i + 1, dense - 1)], log_values[g, t, np.minimum(i + 2, dense - 1)]
    cubic = p1 + 0.5 * x * (p2 - p0 + x * (2 * p0 - 5 * p1 + 4 * p2 - p3 + x * (3 * (p1 - p2) + p3 - p0)))
    linear = p1 + x * (p2 - p1)
    curve = np.where(np.abs(p2 - p1) + np.abs(p1 - p0) + np.abs(p3 - p2) > 20, linear, cubic)
    return np.where(np.abs(inside) <= 1 + 1e-9, np.exp(np.minimum(curve, 50.0)), 0.0)


def draw(sheet: Sheet, group: int, psi2: FloatArray, rng: np.random.Generator) -> FloatArray:
    """psi1 given each psi2: from the row of the grid next to psi2, chosen in proportion to nearness."""
    outer, dense = sheet.outer[group], sheet.value.shape[1]
    t = np.clip((2 * psi2 - outer.sum()) / (outer[1] - outer[0]), -1, 1)
    position = (t + 1) / 2 * (dense - 1)
    row = np.minimum(np.floor(position + rng.random(psi2.size)), dense - 1).astype(np.int64)
    values = sheet.value[group]
    height = np.exp(values - values.max(axis=1, keepdims=True))
    mass = (height[:, :-1] + height[:, 1:]) / 2
    cumulative = np.concatenate([np.zeros((dense, 1)), np.cumsum(mass, axis=1)], axis=1)
    cumulative /= cumulative[:, -1:]
    ladder = (cumulative * (1 - 1e-12) + np.arange(dense)[:, None]).ravel()
    u = rng.random(psi2.size)
    i = np.clip(np.searchsorted(ladder, row + u * (1 - 1e-12), side="right") - 1 - row * dense, 0, dense - 2)
    c0, c1 = cumulative[row, i], cumulative[row, i + 1]
    h0, h1 = height[row, i], height[row, i + 1]
    share = np.clip((u - c0) / np.maximum(c1 - c0, 1e-300), 0, 1)
    # The density is straight within a cell: solve h0 x + (h1 - h0) x^2/2 = share (h0 + h1)/2.
    x = share * (h0 + h1) / np.maximum(h0 + np.sqrt(np.maximum(h0**2 + share * (h1**2 - h0**2), 0)), 1e-300)
    s = -1 + 2 * (i + np.clip(x, 0, 1)) / (dense - 1)
    low, high = limits(sheet.inner[group : group + 1], t)
    return np.asarray((low[0] + high[0]) / 2 + (high[0] - low[0]) / 2 * s)
