"""The posterior of two parameters, for many groups at once: the second parameter outside, the first
within.

A cheap pilot likelihood finds, for every value of the second parameter, the range of the first: a
grid of two parameters in a rectangle would miss funnels. Where n is large the likelihood is narrow
peaks, known beforehand, and each has a patch of its own. In coordinates (s, t) of [-1, 1]^2 that
follow this range, the collapsed log posterior is computed on a dense grid (`_filled`), and the
exact one at few points of it: their difference is smooth. Where splines through the few points
would tell another story than through fewer, there are more, in the end all that matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

# its submodules are imported when they are used: they take longer than a posterior of one parameter
import scipy
from numpy.typing import NDArray

from noisewise.inference import effort
from noisewise.inference.grid import adaptive as grids
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.one_parameter import Exact
from noisewise.inference.grid.peaks_of_two import Peak
from noisewise.model.arrays import FloatArray, IntArray

DENSE = (49, 97, 193)
"""Rows and columns of the dense grid; the finer ones are for posteriors with a narrow part in a
wide range.
"""
PER_CELL = 1.5
"""Dense points in the narrowest cell that the pilot's own grid needed near its peak."""
FIRST_STRIDE = 8
"""The exact likelihood is had at every eighth row and column of the smallest dense grid, then at
every fourth, ...
"""
AGREE, SHRINKS = 0.05, 10.0
"""A stride is fine enough if it moved the log density, weighted by the density, no more than this;
splines err by a tenth of it.
"""
UNREFINED = 2.0
"""Splines that could not be refined further err by at most half of what their last refinement
changed.
"""
RANGE = 14.0
"""A box ends where the density is e^-14 of its peak."""
ROW_RANGE = 11.0
"""A row within it ends where the density is e^-11 of the row's own peak, so that also the last row
is whole.
"""
ROOMY = 0.3
"""The box is drawn closer where less than this share of it matters."""
SMOOTH = 0.01
"""Splines through half of the points may err by this, weighted by the density; through all of them
they err far less.
"""
HOPELESS = 60.0
"""Where the pilot is this far below its peak, the collapsed likelihood is not had: however
correlated, it would be half as far.
"""
MATTERS = 10.0
"""Where the density is below e^-10 of its peak, the difference is held as it is nearby."""
LOOSEST = 4.0
"""An error there counts e^-10 of one at the peak, and may be up to e^4 times as large."""
TAMED = 15.0
PILOT_STRAIGHT, PILOT_MOST, NARROW = 1.0, 150, 3.0
SHARP = 0.15
"""A peak of psi that is narrower has a patch of its own, which reaches PATCH of its widths."""
PATCH = 9.0
HOT, GROWN = 8.0, 0.6
"""A box grows by this share on a side at which the density is not yet e^-8 of its peak."""
FITTED = 8
"""How often a box is drawn closer or wider."""
NOTHING = 60.0
"""Between patches the density is e^-60 of what it is anywhere within."""
FORGOTTEN = 30.0
"""A patch of e^-30 of the mass is left out."""
LOGITS, MARGIN_POINTS = 18.0, 241
"""A margin of the first parameter has so many points, at probabilities up to e^-18."""
LADDER = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
"""First points about a peak, in its widths."""

PSI2 = (-680.0, 680.0)
"""How far a box may grow: e^psi2 is a float."""
BoolArray = NDArray[np.bool_]
Likelihood = Callable[[FloatArray, IntArray], FloatArray]
"""(psi of shape (points, 2), groups) -> log density."""


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


def solve(
    log_prior: Likelihood,
    pilot: Likelihood,
    collapsed: Likelihood,
    exact: Exact | None,
    psi1: FloatArray,
    psi2: FloatArray,
    peaks: Sequence[Sequence[Peak]],
) -> list[list[Patch]]:
    """The sheets of each group, mostly one; psi1 and psi2 are first grids, (groups,
    points) each.
    """
    owner, outer, inner, need = _boxes(
        lambda at, group: log_prior(at, group) + pilot(at, group), psi1, psi2, peaks
    )
    size = np.searchsorted(np.array(DENSE[:-1]) - 1, PER_CELL * need)
    out: list[list[Patch]] = [[] for _ in psi1]
    for nth in np.unique(size):
        members = np.flatnonzero(size == nth)

        def approximate(at: FloatArray, patch: IntArray, members: IntArray = members) -> FloatArray:
            group = owner[members[patch]]
            value = log_prior(at, group) + pilot(at, group)
            best = np.full(len(owner), -np.inf)
            np.fmax.at(best, patch, value)
            near = ~(value < best[patch] - HOPELESS)
            value[near] = log_prior(at[near], group[near]) + collapsed(at[near], group[near])
            return np.nan_to_num(value, nan=grids.LOWEST, neginf=grids.LOWEST)

        def both(
            at: FloatArray,
            patch: IntArray,
            slack: FloatArray | None = None,
            members: IntArray = members,
        ) -> tuple[FloatArray, FloatArray]:
            assert exact is not None
            group = owner[members[patch]]
            likelihood, rest = exact(at, group, slack)
            return likelihood + log_prior(at, group), rest

        sheet, psi = _collapsed(approximate, outer[members], inner[members], DENSE[nth])
        matters = _matter(sheet, owner[members], len(psi1))
        sheet, psi, members = sheet.take(matters), psi[matters], members[matters]
        if exact is not None:
            sheet = _exact(partial(both, members=members), sheet, psi)
        for position, patch in enumerate(members):
            out[owner[patch]].append(sheet.take(np.array([position])))
    return [_without_repeats(sheets) for sheets in out]


def _matter(sheet: Patch, owner: IntArray, groups: int) -> IntArray:
    """Patches that are not negligible beside the others of their group."""
    mass, best = sheet.log_mass, np.full(groups, -np.inf)
    np.maximum.at(best, owner, mass)
    return np.flatnonzero(mass >= best[owner] - FORGOTTEN)


def _without_repeats(sheets: list[Patch]) -> list[Patch]:
    """Patches that have grown into each other would count twice: of those the heavier
    one is kept.
    """
    kept: list[Patch] = []
    for sheet in sorted(sheets, key=lambda one: -float(one.log_mass[0])):
        if not any(_overlap(sheet.hull[0], other.hull[0]) for other in kept):
            kept.append(sheet)
    return kept


def _overlap(one: FloatArray, other: FloatArray) -> bool:
    """Whether two rectangles ((low, high) of psi1 and of psi2) meet."""
    return bool(np.all((one[:, 0] < other[:, 1]) & (other[:, 0] < one[:, 1])))


def _boxes(
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
        for second, first in own:
            owner.append(np.array([g]))
            outer.append(second[None])
            inner.append(first[None])
            need.append(np.ones(1))
    return np.concatenate(owner), np.concatenate(outer), np.concatenate(inner), np.concatenate(need)


def _with(first: FloatArray, peaks: Sequence[Peak], axis: int) -> FloatArray:
    """A first grid with points about every peak."""
    extra = [
        peak.psi[axis] + min(peak.widths[axis], 1.0) * sign * LADDER
        for peak in peaks
        for sign in (-1, 1)
    ]
    return np.unique(np.concatenate([first, *extra]))


def _patches(peaks: Sequence[Peak]) -> list[tuple[FloatArray, FloatArray]]:
    """The boxes of narrow peaks that lie apart; none if a peak is wide or two meet: then one box
    holds everything.
    """
    boxes: list[tuple[FloatArray, FloatArray]] = []
    hulls: list[FloatArray] = []
    for peak in peaks:
        if not np.all(peak.widths < SHARP):
            return []
        half = PATCH * peak.widths[1]
        outer = peak.psi[1] + half * np.array([-1.0, 1.0])
        lean = peak.covariance[0, 1] / peak.covariance[1, 1]
        given = PATCH * np.sqrt(
            max(peak.covariance[0, 0] - lean * peak.covariance[0, 1], 1e-6 * peak.covariance[0, 0])
        )
        inner = np.zeros((2, 4))
        inner[:, 0], inner[:, 1] = peak.psi[0] + given * np.array([-1.0, 1.0]), lean * half
        hull = np.array([[inner[0, 0] - abs(lean * half), inner[1, 0] + abs(lean * half)], outer])
        if any(_overlap(hull, other) for other in hulls):
            return []
        boxes.append((outer, inner))
        hulls.append(hull)
    return boxes


def _collapsed(
    approximate: Likelihood, outer: FloatArray, inner: FloatArray, dense: int
) -> tuple[Patch, FloatArray]:
    """The collapsed log density on dense grids, and where their points are, in boxes drawn close
    around it.
    """
    patches, unit = len(outer), np.linspace(-1, 1, dense)
    value, psi = np.empty((patches, dense, dense)), np.empty((patches, dense, dense, 2))
    todo = np.arange(patches)
    for left in reversed(range(FITTED)):
        psi[todo] = _nodes(unit, outer[todo], inner[todo])
        value[todo] = _filled(approximate, psi[todo], todo)
        if left:
            changed = [p for p in todo if _fit(value[p], psi[p, :, :, 0], outer[p], inner[p])]
            todo = np.array(changed, dtype=np.int64)
        if todo.size == 0:
            break
    return Patch(
        value, value, outer, inner, np.zeros(patches), np.zeros(patches, dtype=np.int64)
    ), psi


def _filled(approximate: Likelihood, psi: FloatArray, groups: IntArray) -> FloatArray:
    """The log density at every second row and column; at the others by splines, or itself where
    splines through fewer err.
    """
    dense = psi.shape[1]
    some = psi[:, ::2, ::2]
    count = some.shape[1]
    known = approximate(some.reshape(-1, 2), np.repeat(groups, count * count)).reshape(
        -1, count, count
    )
    top = known.max(axis=(1, 2), keepdims=True)
    tame = np.maximum(known, top - HOPELESS)  # below it nothing matters, and a cliff would ring
    fewer, all_points = _splines(count // 2 + 1, count), _splines(count, dense)
    miss = np.abs(fewer @ tame[:, ::2, ::2] @ fewer.T - tame) * np.exp(tame - top)
    value = np.asarray(all_points @ tame @ all_points.T)
    rough = (
        scipy.ndimage.maximum_filter(miss > SMOOTH, size=(1, 5, 5))
        .repeat(2, axis=1)
        .repeat(2, axis=2)[:, :dense, :dense]
    )
    rough[:, ::2, ::2], value[:, ::2, ::2] = False, known
    group, i, j = np.nonzero(rough)
    if group.size:
        value[group, i, j] = approximate(psi[group, i, j], groups[group])
    return value


def _exact(exact: Exact, start: Patch, psi: FloatArray) -> Patch:
    """The exact log density: at few points of the dense grid, and at more until they tell the same
    story.
    """
    base, value, error, points = (
        start.value,
        start.value.copy(),
        start.error.copy(),
        start.points.copy(),
    )
    groups, dense = base.shape[:2]
    gap, todo, earlier = np.full(base.shape, np.nan), np.arange(groups), base
    unsettled = np.zeros(groups)  # what the last refinement changed
    stride = first = FIRST_STRIDE * (dense - 1) // (DENSE[0] - 1)
    while todo.size:
        group, i, j = np.nonzero(
            _nearby(value[todo], stride) & np.isnan(gap[todo][:, ::stride, ::stride])
        )
        group, i, j = todo[group], i * stride, j * stride
        below = value.max(axis=(1, 2))[group] - value[group, i, j]
        try:
            posterior, rest = exact(psi[group, i, j], group, np.exp(np.minimum(below, LOOSEST)))
        except effort.TooMuchWork:
            if stride == first:
                raise
            error[todo] += unsettled[todo] / UNREFINED
            break
        points += np.bincount(group, minlength=groups)
        gap[group, i, j] = np.nan_to_num(posterior - base[group, i, j], nan=-np.inf)
        for g in todo:
            value[g] = base[g] + _spread(
                gap[g, ::stride, ::stride], value[g, ::stride, ::stride], dense
            )
        top = value.max(axis=(1, 2), keepdims=True)
        weight = np.exp(np.minimum(posterior - top[group, 0, 0], 0.0))
        np.maximum.at(error, group, np.minimum(rest, 1.0) * np.nan_to_num(weight))
        miss = (np.abs(value[todo] - earlier) * np.exp(value[todo] - top[todo])).max(axis=(1, 2))
        settled = (miss < AGREE) & (stride < first) | (stride == 1)
        error[todo[settled]] += 0.0 if stride == 1 else np.minimum(miss[settled], 1.0) / SHRINKS
        unsettled[todo] = np.minimum(np.nan_to_num(miss, nan=1.0), 1.0)
        if effort.worn_out() and stride < first:
            error[todo[~settled]] += unsettled[todo[~settled]] / UNREFINED
            break
        todo, stride = todo[~settled], stride // 2
        earlier = value[todo].copy()
    return Patch(value, base, start.outer, start.inner, error, points)


def _nearby(value: FloatArray, stride: int) -> BoolArray:
    """Which points of every stride-th row and column lie next to one that matters."""
    matters = value >= value.max(axis=(1, 2), keepdims=True) - MATTERS
    return np.asarray(
        scipy.ndimage.maximum_filter(matters, size=(1, 2 * stride + 1, 2 * stride + 1))[
            :, ::stride, ::stride
        ]
    )


def _spread(gap: FloatArray, value: FloatArray, dense: int) -> FloatArray:
    """A coarse table of differences made dense by cubic splines; what is not known is as at the
    nearest point that is.
    """
    known = np.isfinite(gap)
    if not known.any():
        return np.zeros((dense, dense))
    middle = gap.flat[np.argmax(np.where(known, value, -np.inf))]
    nearest = scipy.ndimage.distance_transform_edt(
        ~known, return_distances=False, return_indices=True
    )
    full = np.clip(gap[tuple(nearest)], middle - TAMED, middle + TAMED)
    table = _splines(gap.shape[0], dense)
    return np.asarray(table @ full @ table.T)


@cache
def _splines(count: int, dense: int) -> FloatArray:
    """From values at `count` even points to `dense` ones."""
    return np.asarray(
        scipy.interpolate.CubicSpline(np.linspace(-1, 1, count), np.eye(count))(
            np.linspace(-1, 1, dense)
        )
    )


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


def _fit(value: FloatArray, psi1: FloatArray, outer: FloatArray, inner: FloatArray) -> bool:
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


def _nodes(unit: FloatArray, outer: FloatArray, inner: FloatArray) -> FloatArray:
    """psi at the tensor grid of unit x unit: (groups, t, s, 2)."""
    low, high = limits(inner, unit)
    first = (low + high)[:, :, None] / 2 + (high - low)[:, :, None] / 2 * unit
    second = outer.sum(axis=1)[:, None] / 2 + np.diff(outer, axis=1) / 2 * unit
    return np.stack([first, np.broadcast_to(second[:, :, None], first.shape)], axis=-1)


Stretch = Callable[[FloatArray], FloatArray]
"""How much the first parameter moves per unit of psi1, at psi2."""


def margins(sheets: Sequence[Patch], centre: float, stretch: Stretch) -> tuple[Grid, Grid]:
    """The log densities of the first parameter, centre + psi1 stretch(psi2), and of psi2, of one
    group.
    """
    rows = [_Rows.of(sheet, stretch) for sheet in sheets]
    top = max(float(one.row.max()) for one in rows)
    second = _mixed([(one.psi2, one.row) for one in rows])
    at = np.unique(np.concatenate([one.positions() for one in rows]))
    height = np.maximum(sum(one.density(at) * np.exp(one.top - top) for one in rows), 1e-300)
    counts = np.array([0, at.size])
    return Grid(centre + at, np.log(height) + top, counts), second


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
    def of(cls, sheet: Patch, stretch: Stretch) -> "_Rows":
        value, dense = sheet.value[0], sheet.value.shape[1]
        unit, top = np.linspace(-1, 1, dense), float(sheet.value[0].max())
        low, high = (side[0] for side in limits(sheet.inner, unit))
        psi2 = sheet.outer[0].mean() + np.diff(sheet.outer[0]) / 2 * unit
        # a row may be far below the peak
        held = np.maximum(np.exp(value - top) @ _trapezoid(dense), 1e-300)
        size = stretch(psi2)
        return cls(
            value - top,
            top,
            psi2,
            low * size,
            high * size,
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
