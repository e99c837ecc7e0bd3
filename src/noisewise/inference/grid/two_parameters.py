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
AGREE, SHRINKS = 0.05, 10.0
"""A stride is fine enough if it moved the log density, weighted by the density, no more than this;
splines err by a tenth of it.
"""
CORE, CORE_CELLS = 1.0, 2.4
"""Where the density is above e^-1 of its peak is its core, which must have so many cells of the
stride along either axis: where tails are long, few points lie in it, and two coarse choices may
agree by chance, unless they agree far better than they must.
"""
UNREFINED = 2.0
"""Splines that could not be refined further err by at most half of what their last refinement
changed.
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
    """How far the mass of each row, or of each column, may be off for the grid's sake: where the
    density is resolved, half of the points would do as well.
    """
    height = np.exp(sheet.value - sheet.value.max(axis=(1, 2), keepdims=True)) * sheet.areas
    off = np.zeros(len(height))
    for every in (height, height.swapaxes(1, 2)):
        all_points, half = every.sum(axis=2), 2 * every[:, :, ::2].sum(axis=2)
        total = all_points.sum(axis=1)
        off = np.maximum(off, np.abs(half - all_points).sum(axis=1) / total)
    return np.minimum(off, 1.0)


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
        fine = (_core(value[todo]) >= CORE_CELLS * stride) | (miss < AGREE / SHRINKS)
        settled = (miss < AGREE) & (stride < first) & fine | (stride == 1)
        error[todo[settled]] += 0.0 if stride == 1 else np.minimum(miss[settled], 1.0) / SHRINKS
        unsettled[todo] = np.minimum(np.nan_to_num(miss, nan=1.0), 1.0)
        if effort.worn_out() and stride < first:
            error[todo[~settled]] += unsettled[todo[~settled]] / UNREFINED
            break
        todo, stride = todo[~settled], stride // 2
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
