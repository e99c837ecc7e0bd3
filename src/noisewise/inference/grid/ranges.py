"""Where a posterior of two parameters lies: boxes whose sides follow it, drawn closer or wider
until they fit.
"""

from collections.abc import Callable, Sequence

import numpy as np

# its submodules are imported when they are used: they take longer than a posterior of one parameter
import scipy

from noisewise.inference.grid import adaptive as grids
from noisewise.inference.grid.peaks_of_two import REACH, Peak
from noisewise.model.arrays import FloatArray, IntArray

RANGE = 14.0
"""A box ends where the density is e^-14 of its peak."""
ROW_RANGE = 11.0
"""A row within it ends where the density is e^-11 of the row's own peak, so that also the last row
is whole.
"""
ROOMY, SAME = 0.3, 0.9
"""The box is drawn closer where less than this share of it matters, unless it would hardly change:
its limits are smooth, and what matters need not be.
"""
PILOT_STRAIGHT, PILOT_MOST, NARROW = 1.0, 150, 3.0
"""Of the pilot's own grids: how far the log density may bend in a cell, their points at most, and
how far below its peak a cell counts as part of the narrowest.
"""
SHARP = 0.15
"""A peak of psi that is narrower has a patch of its own, which reaches PATCH of its widths."""
NEGLIGIBLE, LIGHT = 40.0, 9.0
"""A sharp peak of e^-40 of the mass of another is left out, and a wide one of e^-9."""
PATCH = 9.0
"""Beyond 9 widths a normal peak is e^-40 of its height."""
MOST_CELLS = 300.0
"""Peaks that meet share a box if their narrowest part goes in it so often, about as often as the
finest grid resolves.
"""
HOT, GROWN = 8.0, 0.6
"""A box grows by this share on a side at which the density is not yet e^-8 of its peak."""
LADDER = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
"""First points about a peak, in its widths."""
PSI2 = (-680.0, 680.0)
"""How far a box may grow: e^psi2 is a float."""
Likelihood = Callable[[FloatArray, IntArray], FloatArray]
"""(psi of shape (points, 2), groups) -> log density."""


def boxes(
    pilot: Likelihood, psi1: FloatArray, psi2: FloatArray, peaks: Sequence[Sequence[Peak]]
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """For each patch its group, its range of psi2, that of psi1 given psi2, and in how many cells
    its narrowest part goes.
    """
    patches = [_patches(own) for own in peaks]
    wide = np.array([g for g, own in enumerate(patches) if not own], dtype=np.int64)
    owner, outer, inner, need = [wide], [np.empty((0, 2))], [np.empty((0, 2, 4))], [np.empty(0)]
    if wide.size:
        starts = [(_with(psi1[g], peaks[g], 0), _with(psi2[g], peaks[g], 1)) for g in wide]
        box = _box(
            lambda at, group: pilot(at, wide[group]),
            [first for first, _ in starts],
            [second for _, second in starts],
        )
        outer, inner, need = [box[0]], [box[1]], [box[2]]
    for g, own in enumerate(patches):
        for second, first, cells in own:
            owner.append(np.array([g]))
            outer.append(second[None])
            inner.append(first[None])
            need.append(np.array([cells]))
    return np.concatenate(owner), np.concatenate(outer), np.concatenate(inner), np.concatenate(need)


def _with(first: FloatArray, peaks: Sequence[Peak], axis: int) -> FloatArray:
    """A first grid with points about every peak."""
    extra = [
        peak.psi[axis] + min(peak.widths[axis], 1.0) * sign * LADDER
        for peak in peaks
        for sign in (-1, 1)
    ]
    return np.unique(np.concatenate([first, *extra]))


def _patches(peaks: Sequence[Peak]) -> list[tuple[FloatArray, FloatArray, float]]:
    """The boxes of peaks, of those together that meet, and in how many cells the narrowest part
    of each goes. None if no peak is sharp: then one box holds everything.
    """
    if not any(_sharp(peak) and peak.log_mass >= -NEGLIGIBLE for peak in peaks):
        return []
    kept = [peak for peak in peaks if peak.log_mass >= -(NEGLIGIBLE if _sharp(peak) else LIGHT)]
    groups: list[tuple[FloatArray, list[Peak]]] = []
    for peak in kept:
        hull, members = _hull(peak), [peak]
        while True:
            met = next((group for group in groups if _join(hull, members, *group)), None)
            if met is None:
                break
            groups = [group for group in groups if group is not met]
            hull, members = _joined(hull, met[0]), [*members, *met[1]]
        groups.append((hull, members))
    return [_around(hull, members) for hull, members in groups]


def _join(hull: FloatArray, members: list[Peak], other: FloatArray, others: list[Peak]) -> bool:
    """Whether two boxes meet, and one grid resolves both: a box that is drawn closer later may not
    meet the other any more.
    """
    if not overlap(hull, other):
        return False
    return _cells(_joined(hull, other), [*members, *others]) <= MOST_CELLS


def _joined(hull: FloatArray, other: FloatArray) -> FloatArray:
    return np.stack(
        [np.minimum(hull[:, 0], other[:, 0]), np.maximum(hull[:, 1], other[:, 1])], axis=1
    )


def _cells(hull: FloatArray, members: Sequence[Peak]) -> float:
    """In how many cells the narrowest part goes."""
    narrow = np.min([peak.widths for peak in members], axis=0)
    return float((np.diff(hull)[:, 0] / narrow).max() * 2)


def _sharp(peak: Peak) -> bool:
    return bool(np.all(peak.widths < SHARP))


def _hull(peak: Peak) -> FloatArray:
    """The rectangle that holds a peak, ((low, high) of psi1 and of psi2)."""
    half = np.minimum(PATCH * peak.widths, REACH)
    hull = np.stack([peak.psi - half, peak.psi + half], axis=1)
    hull[1] = np.clip(hull[1], *PSI2)
    return np.asarray(hull)


def _around(hull: FloatArray, members: Sequence[Peak]) -> tuple[FloatArray, FloatArray, float]:
    """A box about one peak that leans as it does, or about several."""
    inner = np.zeros((2, 4))
    if len(members) > 1:
        inner[:, 0] = hull[0]
        return hull[1], inner, _cells(hull, members)
    covariance = members[0].covariance
    lean = covariance[0, 1] / covariance[1, 1]
    left = max(covariance[0, 0] - lean * covariance[0, 1], 1e-6 * covariance[0, 0])
    inner[:, 0] = members[0].psi[0] + PATCH * np.sqrt(left) * np.array([-1.0, 1.0])
    inner[:, 1] = lean * np.diff(hull[1])[0] / 2
    return hull[1], inner, 1.0


def _box(
    pilot: Likelihood, psi1: Sequence[FloatArray], psi2: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The range of psi2, and of psi1 given psi2, that holds the pilot posterior; and in how many
    cells the narrowest part goes.
    """
    groups = len(psi1)
    found: list[tuple[FloatArray, ...]] = []

    def marginal(at: FloatArray, group: IntArray) -> FloatArray:
        def given(first: FloatArray, row: IntArray) -> FloatArray:
            return pilot(np.stack([first, at[row]], axis=-1), group[row])

        start = grids.begin(given, [psi1[g] for g in group])
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
        need[g] = max(need[g], np.max((high - low)[close] / cell[close], initial=0.0))
    return outer, inner, need


def fit(value: FloatArray, psi1: FloatArray, outer: FloatArray, inner: FloatArray) -> bool:
    """Draw the box of one patch wider or closer, in place, if it should be."""
    return _widen(value, outer, inner) or _tighten(value, psi1, outer, inner)


def _widen(value: FloatArray, outer: FloatArray, inner: FloatArray) -> bool:
    """Let the box of one patch grow, in place, on the sides where it cuts the density off."""
    hot = value.max() - HOT
    below, above = value[0].max() > hot, value[-1].max() > hot
    left, right = value[1:-1, 0].max() > hot, value[1:-1, -1].max() > hot
    below, above = below and outer[0] > PSI2[0], above and outer[1] < PSI2[1]
    if not (below or above or left or right):
        return False
    t = np.linspace(-1 - GROWN * below, 1 + GROWN * above, 33)
    ends = limits(inner[None], np.array([-1.0, -0.9, 0.9, 1.0]))
    sides = []
    # straight on beyond the ends
    for side, end in zip(limits(inner[None], np.clip(t, -1, 1)), ends, strict=True):
        rise = np.diff(end[0])[[0, 2]] / 0.1
        sides.append(side[0] + rise[0] * np.minimum(t + 1, 0.0) + rise[1] * np.maximum(t - 1, 0.0))
    low, high = sides
    size = np.maximum(high - low, 1e-12)
    middle, half = outer.mean(), np.diff(outer)[0] / 2
    outer[:] = np.clip(middle + half * t[[0, -1]], *PSI2)
    inner[:] = _ranges(
        (2 * t - t[0] - t[-1]) / (t[-1] - t[0]),
        low - GROWN * size * left,
        high + GROWN * size * right,
    )
    return True


def _tighten(value: FloatArray, psi1: FloatArray, outer: FloatArray, inner: FloatArray) -> bool:
    """Draw the box of one group closer around what matters, in place, if it is too wide; psi1 is
    (dense t, dense s).
    """
    dense = len(value)
    row = value.max(axis=1, keepdims=True)
    matters = (row >= value.max() - RANGE) & (value >= row - ROW_RANGE)
    wide = scipy.ndimage.binary_dilation(matters)
    rows, columns = np.flatnonzero(wide.any(axis=1)), np.flatnonzero(wide.any(axis=0))
    if wide.sum() > ROOMY * wide.size or min(rows.size, columns.size) < 2:
        return False
    t = np.linspace(-1, 1, dense)[rows]
    low = psi1[rows, np.argmax(wide[rows], axis=1)]
    high = psi1[rows, dense - 1 - np.argmax(wide[rows, ::-1], axis=1)]
    closer = _ranges((2 * t - t[0] - t[-1]) / (t[-1] - t[0]), low, high)
    share = _area(closer) * (t[-1] - t[0]) / 2 / _area(inner)
    if share > SAME:
        return False
    middle, half = outer.mean(), np.diff(outer)[0] / 2
    outer[:], inner[:] = middle + half * t[[0, -1]], closer
    return True


def _area(inner: FloatArray) -> float:
    """Of a box, over t from -1 to 1."""
    low, high = limits(inner[None], np.linspace(-1, 1, 33))
    return float((high - low).mean())


def _ranges(t: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Smooth limits in t that hold all of [low, high]: a cubic through each, moved outward."""
    powers = t[:, None] ** np.arange(min(4, t.size))
    out = np.zeros((2, 4))
    for side, edge, sign in ((0, low, -1.0), (1, high, 1.0)):
        fit = np.linalg.lstsq(powers, edge, rcond=None)[0]
        out[side, : fit.size] = fit
        out[side, 0] += sign * np.max(sign * (edge - powers @ fit)) + sign * 1e-9 * (
            1 + np.abs(edge).max()
        )
    return out


def limits(inner: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lowest and highest psi1 at t, (groups, len(t)) each, for t of shape (len,) or (groups,
    len).
    """
    t = np.broadcast_to(t, (len(inner), np.shape(t)[-1]))
    powers = t[:, :, None] ** np.arange(4)
    low = np.einsum("gtk,gk->gt", powers, inner[:, 0])
    high = np.einsum("gtk,gk->gt", powers, inner[:, 1])
    return low, np.maximum(high, low + 1e-9 * (1 + np.abs(low)))


def nodes(unit: FloatArray, outer: FloatArray, inner: FloatArray) -> FloatArray:
    """psi at the tensor grid of unit x unit: (groups, t, s, 2)."""
    low, high = limits(inner, unit)
    first = (low + high)[:, :, None] / 2 + (high - low)[:, :, None] / 2 * unit
    second = outer.sum(axis=1)[:, None] / 2 + np.diff(outer, axis=1) / 2 * unit
    return np.stack([first, np.broadcast_to(second[:, :, None], first.shape)], axis=-1)


def overlap(one: FloatArray, other: FloatArray) -> bool:
    """Whether two rectangles ((low, high) of psi1 and of psi2) meet."""
    return bool(np.all((one[:, 0] < other[:, 1]) & (other[:, 0] < one[:, 1])))
