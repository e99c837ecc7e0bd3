"""The posterior of two parameters, for many groups at once: the second parameter outside, the first
within.

A cheap pilot likelihood finds, for every value of the second parameter, the range of the first: a
grid of two parameters in a rectangle would miss funnels. Where n is large the likelihood is narrow
peaks, known beforehand, and each has a patch of its own. In coordinates (s, t) of [-1, 1]^2 that
follow this range, the collapsed log posterior is computed on a dense grid (`_filled`), and the
exact one at few points of it: their difference is smooth. Where splines through the few points
would tell another story than through fewer, there are more, in the end all that matter.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import numpy as np

# its submodules are imported when they are used: they take longer than a posterior of one parameter
import scipy

from noisewise.inference import effort
from noisewise.inference.grid import adaptive as grids
from noisewise.inference.grid.one_parameter import Exact
from noisewise.inference.grid.patch import Patch
from noisewise.inference.grid.peaks_of_two import Peak
from noisewise.inference.grid.ranges import Likelihood, boxes, fit, nodes
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

DENSE = (49, 97, 193)
"""Rows and columns of the dense grid; the finer ones are for posteriors with a narrow part in a
wide range.
"""
PER_CELL = 1.5
"""Dense points in the narrowest cell that the pilot's own grid needed near its peak."""
FIRST_STRIDE = 8
"""The exact likelihood is computed at every eighth row and column of the smallest dense grid, then
at every fourth, ...
"""
AGREE, CLOSE, SHRINKS = 0.05, 0.01, 10.0
"""A stride is fine enough if it moved the log density, weighted by the density, nowhere more than
this, or the density by so little in total variation; splines err by a tenth of it.
"""
CORE, CORE_CELLS, BETTER = 1.0, 2.4, 0.25
"""Where the density is above e^-1 of its peak is its core, which must have so many cells of the
stride along either axis: where tails are long, few points lie in it, and two coarse choices may
agree by chance, unless they agree that much better than they must.
"""
UNREFINED = 2.0
"""Splines that could not be refined further err by at most half of what their last refinement
changed.
"""
RATIOS = (1.5, 4.0)
"""Of what is changed by leaving out half of a grid's points again and again, at least and at most.
"""
SMOOTH = 0.01
"""Splines through half of the points may err by this, weighted by the density; through all of them
they err far less.
"""
HOPELESS = 60.0
"""Where the pilot is this far below its peak, the collapsed likelihood is not computed: however
correlated, it would be half as far.
"""
MATTERS = 10.0
"""Where the density is below e^-10 of its peak, the difference is held as it is nearby."""
LOOSEST = 4.0
"""An error there counts e^-10 of one at the peak, and may be up to e^4 times as large."""
TAMED = 15.0
"""The exact log density is not let further from the collapsed one than this beyond the median
difference: splines through wild values would swing.
"""
SWING = 0.5
"""Where splines leave the straight line between points by more, as they do at a cliff, the line
stands.
"""
FITTED = 8
"""How often a box is drawn closer or wider."""
FORGOTTEN = 30.0
"""A patch of e^-30 of the mass is left out, and what lies so far below the peak of a patch."""


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
    owner, outer, inner, need = boxes(
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
        sheet = replace(sheet, error=sheet.error + _coarse(sheet))
        for position, patch in enumerate(members):
            out[owner[patch]].append(sheet.take(np.array([position])))
    return [_apart(sheets) for sheets in out]


def _matter(sheet: Patch, owner: IntArray, groups: int) -> IntArray:
    """Patches that are not negligible beside the others of their group."""
    mass, best = sheet.log_mass, np.full(groups, -np.inf)
    np.maximum.at(best, owner, mass)
    return np.flatnonzero(mass >= best[owner] - FORGOTTEN)


def _coarse(sheet: Patch) -> FloatArray:
    """How far off, in total variation, the masses of rows or of columns may be for the grid's sake.

    Each time half of the points are left out the sums change the more, by about the same ratio; so
    by what the last halving changed, and that ratio less 1, they are off (Richardson). Densities
    that bend, or have a kink, have a ratio of 4; a cliff, or what is not resolved at all, of less.
    """
    height = np.exp(sheet.value - sheet.value.max(axis=(1, 2), keepdims=True)) * sheet.areas
    off = np.zeros(len(height))
    for every in (height, height.swapaxes(1, 2)):
        sums = [2**k * every[:, :, :: 2**k].sum(axis=2) for k in range(3)]
        last, before = (np.abs(fine - half).sum(axis=1) for fine, half in pairwise(sums))
        ratio = np.clip(before / np.maximum(last, 1e-300), *RATIOS)
        off = np.maximum(off, last / (ratio - 1) / sums[0].sum(axis=1) / 2)
    return np.minimum(off, 1.0)


def _distance(one: FloatArray, other: FloatArray, areas: FloatArray) -> FloatArray:
    """Total variation between densities, given by their logs on the grids of patches."""
    mass = [np.exp(v - v.max(axis=(1, 2), keepdims=True)) * areas for v in (one, other)]
    first, second = (m / m.sum(axis=(1, 2), keepdims=True) for m in mass)
    return np.asarray(np.abs(first - second).sum(axis=(1, 2)) / 2)


def _apart(sheets: list[Patch]) -> list[Patch]:
    """What two patches have in common would count twice: it is left to the one with the finer
    grid.
    """
    kept: list[Patch] = []
    for sheet in sorted(sheets, key=lambda one: one.cell):
        dense = sheet.value.shape[1]
        psi = nodes(np.linspace(-1, 1, dense), sheet.outer, sheet.inner)[0]
        taken = np.zeros((dense, dense), dtype=bool)
        for other in kept:
            taken |= other.holds(psi)
        if not taken.all():
            kept.append(sheet.without(taken, FORGOTTEN) if taken.any() else sheet)
    heaviest = max(float(one.log_mass[0]) for one in kept)
    return [one for one in kept if one.log_mass[0] >= heaviest - FORGOTTEN]


def _collapsed(
    approximate: Likelihood, outer: FloatArray, inner: FloatArray, dense: int
) -> tuple[Patch, FloatArray]:
    """The collapsed log density on dense grids, and where their points are, in boxes drawn close
    around it.
    """
    for size in sorted({max(dense // 4, DENSE[0]), dense}):  # boxes are found on coarser grids
        value, psi = _fitted(approximate, outer, inner, size)
    patches = len(outer)
    return Patch(
        value, value, outer, inner, np.zeros(patches), np.zeros(patches, dtype=np.int64)
    ), psi


def _fitted(
    approximate: Likelihood, outer: FloatArray, inner: FloatArray, dense: int
) -> tuple[FloatArray, FloatArray]:
    """The log density on grids of that many rows and columns, and their points; boxes are drawn
    closer or wider, in place, until they fit.
    """
    patches, unit = len(outer), np.linspace(-1, 1, dense)
    value, psi = np.empty((patches, dense, dense)), np.empty((patches, dense, dense, 2))
    todo = np.arange(patches)
    for left in reversed(range(FITTED)):
        psi[todo] = nodes(unit, outer[todo], inner[todo])
        value[todo] = _filled(approximate, psi[todo], todo)
        if left:
            changed = [p for p in todo if fit(value[p], psi[p, :, :, 0], outer[p], inner[p])]
            todo = np.array(changed, dtype=np.int64)
        if todo.size == 0:
            break
    return value, psi


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
    moved = np.ones(groups)  # by the last refinement
    areas = start.areas
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
            error[todo] += moved / UNREFINED
            break
        points += np.bincount(group, minlength=groups)
        off = posterior - base[group, i, j]
        gap[group, i, j] = np.nan_to_num(off, nan=-np.inf, neginf=-np.inf)
        for g in todo:
            value[g] = base[g] + _spread(
                gap[g, ::stride, ::stride], value[g, ::stride, ::stride], dense
            )
        top = value.max(axis=(1, 2), keepdims=True)
        weight = np.exp(np.minimum(posterior - top[group, 0, 0], 0.0))
        np.maximum.at(error, group, np.minimum(rest, 1.0) * np.nan_to_num(weight))
        miss = (np.abs(value[todo] - earlier) * np.exp(value[todo] - top[todo])).max(axis=(1, 2))
        moved = np.nan_to_num(_distance(value[todo], earlier, areas[todo]), nan=1.0)
        change = np.fmin(miss / AGREE, moved / CLOSE)
        fine = _core(value[todo]) >= CORE_CELLS * stride
        settled = (change < np.where(fine, 1.0, BETTER)) & (stride < first) | (stride == 1)
        if stride > 1:
            error[todo[settled]] += (moved / np.where(fine, SHRINKS, UNREFINED))[settled]
        if effort.worn_out() and stride < first:
            error[todo[~settled]] += moved[~settled] / UNREFINED
            break
        todo, stride, moved = todo[~settled], stride // 2, moved[~settled]
        earlier = value[todo].copy()
    return Patch(value, base, start.outer, start.inner, error, points)


def _core(value: FloatArray) -> IntArray:
    """How many rows or columns the core of each patch has, whichever are fewer."""
    core = value >= value.max(axis=(1, 2), keepdims=True) - CORE
    return np.asarray(np.minimum(core.any(axis=2).sum(axis=1), core.any(axis=1).sum(axis=1)))


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
    smooth, straight = (table(gap.shape[0], dense) for table in (_splines, _lines))
    curved, plain = smooth @ full @ smooth.T, straight @ full @ straight.T
    return np.asarray(np.where(np.abs(curved - plain) < SWING, curved, plain))


@cache
def _lines(count: int, dense: int) -> FloatArray:
    """The same, straight from one point to the next."""
    coarse, fine = np.linspace(-1, 1, count), np.linspace(-1, 1, dense)
    return np.stack([np.interp(fine, coarse, one) for one in np.eye(count)], axis=1)


@cache
def _splines(count: int, dense: int) -> FloatArray:
    """From values at `count` even points to `dense` ones."""
    return np.asarray(
        scipy.interpolate.CubicSpline(np.linspace(-1, 1, count), np.eye(count))(
            np.linspace(-1, 1, dense)
        )
    )
