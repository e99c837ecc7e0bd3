"""The posterior of two parameters, for many groups at once: the second parameter outside, the first within.

A cheap pilot likelihood finds, for every value of the second parameter, the range of the first: a grid of two
parameters in a rectangle would miss funnels. In coordinates (s, t) of [-1, 1]^2 that follow this range, the collapsed
log posterior is evaluated on a dense grid, and the exact one at few Chebyshev points: their difference is smooth.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewise.inference import chebyshev
from noisewise.inference import grid as grids
from noisewise.inference.grid import Grid
from noisewise.inference.line import AGREE, Exact
from noisewise.model.arrays import FloatArray, IntArray

DENSE = 49
COUNTS = (5, 9, 17, 33)
RANGE = 14.0
EXACT = 0.8
"""The Chebyshev points span this share of s and t; beyond, where the density is e^-9 of its peak, the difference is held."""
TAMED = 15.0
PILOT_STRAIGHT, PILOT_MOST = 1.0, 150

Likelihood = Callable[[FloatArray, IntArray], FloatArray]
"""(psi of shape (points, 2), groups) -> log density."""


@dataclass(frozen=True)
class Sheet:
    """Log densities on a grid of (s, t): psi2 = middle2 + half2 t, psi1 = polynomial ranges in t."""

    value: FloatArray  # (groups, DENSE over t, DENSE over s)
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
) -> Sheet:
    """psi1 and psi2 are first grids, (groups, points) each."""
    outer, inner = _box(lambda at, group: log_prior(at, group) + pilot(at, group), psi1, psi2)
    groups = len(psi1)
    dense = _nodes(np.linspace(-1, 1, DENSE), outer, inner)  # (groups, DENSE t, DENSE s, 2)
    owner = np.repeat(np.arange(groups), DENSE * DENSE)
    flat = dense.reshape(-1, 2)
    base = np.nan_to_num(log_prior(flat, owner) + collapsed(flat, owner), nan=grids.LOWEST, neginf=grids.LOWEST)
    base = base.reshape(groups, DENSE, DENSE)
    value, error, points = base.copy(), np.zeros(groups), np.zeros(groups, dtype=np.int64)
    todo, known = np.arange(groups), None
    across = np.clip(np.linspace(-1, 1, DENSE) / EXACT, -1, 1)
    for count in COUNTS if exact is not None else ():
        assert exact is not None
        unit = chebyshev.points(count)
        at = _nodes(EXACT * unit, outer[todo], inner[todo])
        fresh = np.ones((count, count), dtype=bool)
        if known is not None:
            fresh[::2, ::2] = False
        flat, owner = at[:, fresh].reshape(-1, 2), np.repeat(todo, fresh.sum())
        likelihood, rest = exact(flat, owner)
        points[todo] += fresh.sum()
        posterior = np.nan_to_num(likelihood + log_prior(flat, owner), nan=-1e300, neginf=-1e300).reshape(todo.size, -1)
        weight = np.exp(posterior - posterior.max(axis=1, keepdims=True))
        error[todo] = np.maximum(error[todo], (np.minimum(rest.reshape(weight.shape), 1.0) * weight).max(axis=1))
        gap = np.empty((todo.size, count, count))
        gap[:, fresh] = _tamed((likelihood - collapsed(flat, owner)).reshape(todo.size, -1), posterior)
        if known is not None:
            gap[:, ::2, ::2] = known
        table = chebyshev.weights(count, across)  # (DENSE, count)
        fine = np.einsum("ti,gij,sj->gts", table, gap, table, optimize=True)
        value[todo] = base[todo] + fine
        settled = np.zeros(todo.size, dtype=bool)
        if known is not None:
            half = chebyshev.weights(count // 2 + 1, across)
            crude = np.einsum("ti,gij,sj->gts", half, gap[:, ::2, ::2], half, optimize=True)
            top = value[todo].max(axis=(1, 2), keepdims=True)
            miss = (np.abs(fine - crude) * np.exp(value[todo] - top)).max(axis=(1, 2))
            settled = miss < (10 * AGREE if count < 17 else 0.1)
            error[todo] += np.where(settled | (count == COUNTS[-1]), np.minimum(miss, 1.0) ** 1.5, 0.0)
        todo, known = todo[~settled], gap[~settled]
        if todo.size == 0:
            break
    return Sheet(value, base, outer, inner, error, points)


def _tamed(gap: FloatArray, posterior: FloatArray) -> FloatArray:
    """Corners where the posterior is nothing may have any gap, or none; held near that of the peak they do no harm elsewhere."""
    best = np.argmax(np.where(np.isfinite(gap), posterior, -np.inf), axis=1)
    middle = np.nan_to_num(gap[np.arange(len(gap)), best], posinf=0.0, neginf=0.0)[:, None]
    return np.clip(np.where(np.isfinite(gap), gap, middle), middle - TAMED, middle + TAMED)


def _box(pilot: Likelihood, psi1: FloatArray, psi2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The range of psi2, and of psi1 given psi2, that holds the pilot posterior."""
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
        found.append((group.astype(float), at, *grid.extent(RANGE)))
        return np.asarray(best + np.log(np.maximum(mass, 1e-300)))

    grid = grids.refine(marginal, grids.begin(marginal, psi2), PILOT_STRAIGHT, PILOT_MOST)
    outer = np.stack(grid.extent(RANGE), axis=1)
    group, at, low, high = (np.concatenate(columns) for columns in zip(*found, strict=True))
    inner = np.zeros((groups, 2, 4))
    for g in range(groups):
        here = (group == g) & (at >= outer[g, 0]) & (at <= outer[g, 1])
        t = (2 * at[here] - outer[g].sum()) / (outer[g, 1] - outer[g, 0])
        inner[g] = _ranges(t, low[here], high[here])
    return outer, inner


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
    groups = len(values)
    unit = np.linspace(-1, 1, DENSE)
    low, high = limits(sheet.inner, unit)
    top = values.max(axis=(1, 2), keepdims=True)
    trapezoid = np.full(DENSE, 2.0 / (DENSE - 1))
    trapezoid[[0, -1]] /= 2
    row = np.log(np.einsum("gts,s->gt", np.exp(values - top), trapezoid)) + np.log((high - low) / 2) + top[:, :, 0]
    psi2 = sheet.outer.sum(axis=1)[:, None] / 2 + np.diff(sheet.outer, axis=1) / 2 * unit
    second = Grid(psi2.ravel(), row.ravel(), np.arange(groups + 1) * DENSE)
    edges = _first_points(low, high, row)
    count = edges.shape[1]
    inside = (2 * edges[:, None, :] - (low + high)[:, :, None]) / (high - low)[:, :, None]  # (groups, t, count)
    height = _interpolate_rows(values - top, inside)
    mass = np.einsum("gtc,t->gc", height, trapezoid)
    first = Grid(edges.ravel(), (np.log(np.maximum(mass, 1e-300)) + top[:, 0]).ravel(), np.arange(groups + 1) * count)
    return first, second


def _first_points(low: FloatArray, high: FloatArray, row: FloatArray) -> FloatArray:
    """Increasing points of psi1: half evenly over the whole range, half over that of the heaviest row."""
    g, best = np.arange(len(row)), np.argmax(row, axis=1)
    whole = low.min(axis=1), high.max(axis=1)
    heaviest = low[g, best], high[g, best]
    spans = (whole, np.linspace(0, 1, DENSE)), (heaviest, np.linspace(0, 1, DENSE + 1)[1:-1])
    return np.sort(np.concatenate([a[:, None] + (b - a)[:, None] * share for (a, b), share in spans], axis=1), axis=1)


def _interpolate_rows(log_values: FloatArray, inside: FloatArray) -> FloatArray:
    """exp of each row's log density (cubic in s) at positions s = inside; 0 beyond [-1, 1]."""
    position = np.clip((inside + 1) / 2 * (DENSE - 1), 0, DENSE - 1 - 1e-9)
    i = position.astype(np.int64)
    x = position - i
    g = np.arange(log_values.shape[0])[:, None, None]
    t = np.arange(log_values.shape[1])[None, :, None]
    p0, p1 = log_values[g, t, np.maximum(i - 1, 0)], log_values[g, t, i]
    p2, p3 = log_values[g, t, np.minimum(i + 1, DENSE - 1)], log_values[g, t, np.minimum(i + 2, DENSE - 1)]
    cubic = p1 + 0.5 * x * (p2 - p0 + x * (2 * p0 - 5 * p1 + 4 * p2 - p3 + x * (3 * (p1 - p2) + p3 - p0)))
    linear = p1 + x * (p2 - p1)
    curve = np.where(np.abs(p2 - p1) + np.abs(p1 - p0) + np.abs(p3 - p2) > 20, linear, cubic)
    return np.where(np.abs(inside) <= 1 + 1e-9, np.exp(np.minimum(curve, 50.0)), 0.0)


def draw(sheet: Sheet, group: int, psi2: FloatArray, rng: np.random.Generator) -> FloatArray:
    """psi1 given each psi2: from the row of the grid next to psi2, chosen in proportion to nearness."""
    outer = sheet.outer[group]
    t = np.clip((2 * psi2 - outer.sum()) / (outer[1] - outer[0]), -1, 1)
    position = (t + 1) / 2 * (DENSE - 1)
    row = np.minimum(np.floor(position + rng.random(psi2.size)), DENSE - 1).astype(np.int64)
    values = sheet.value[group]
    height = np.exp(values - values.max(axis=1, keepdims=True))
    mass = (height[:, :-1] + height[:, 1:]) / 2
    cumulative = np.concatenate([np.zeros((DENSE, 1)), np.cumsum(mass, axis=1)], axis=1)
    cumulative /= cumulative[:, -1:]
    ladder = (cumulative * (1 - 1e-12) + np.arange(DENSE)[:, None]).ravel()
    u = rng.random(psi2.size)
    i = np.clip(np.searchsorted(ladder, row + u * (1 - 1e-12), side="right") - 1 - row * DENSE, 0, DENSE - 2)
    c0, c1 = cumulative[row, i], cumulative[row, i + 1]
    h0, h1 = height[row, i], height[row, i + 1]
    share = np.clip((u - c0) / np.maximum(c1 - c0, 1e-300), 0, 1)
    # The density is straight within a cell: solve h0 x + (h1 - h0) x^2/2 = share (h0 + h1)/2.
    x = share * (h0 + h1) / np.maximum(h0 + np.sqrt(np.maximum(h0**2 + share * (h1**2 - h0**2), 0)), 1e-300)
    s = -1 + 2 * (i + np.clip(x, 0, 1)) / (DENSE - 1)
    low, high = limits(sheet.inner[group : group + 1], t)
    return np.asarray((low[0] + high[0]) / 2 + (high[0] - low[0]) / 2 * s)
