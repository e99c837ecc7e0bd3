"""Tables of a release's log-likelihood that are good to 1e-4 wherever a posterior may be."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy

from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.grid.patch import Patch
from noisewise.inference.grid.ranges import nodes
from noisewise.inference.likelihood_exact import precise
from noisewise.inference.methods.base import Request
from noisewise.inference.methods.grid_solutions import OneParameter, TwoParameters
from noisewise.inference.problem import Problem
from noisewise.inference.solver import Solver
from noisewise.inference.splines import Line, Sheet
from noisewise.model.arrays import FloatArray, Namespace

GOOD = 3e-5
"""A cubic through half of the points may err by this where the likelihood is near its peak; all of
them err a sixteenth of it.
"""
LOOSER = 4.0
"""e^-16 below the peak it may err by e^(16/4) times as much."""
RANGE, RANGE_OF_TWO = 32.0, 16.0
"""The table of one parameter, and of two, ends where the posterior under a wide prior is e^-32, or
e^-16, of its peak. Beyond it goes straight on.
"""
ROUNDS, MOST = 12, 4096
"""Of halving cells, and points at most."""
SIZES = (17, 33, 65)
"""Rows and columns of a table of two parameters: until half of them tell the same."""
GOOD_OF_TWO = 2e-4
"""Half of the rows and columns may err by this, and all of them by a sixteenth."""


@final
@dataclass(frozen=True)
class Table:
    """log L at theta of shape (..., p)."""

    axes: tuple[Axis, ...]
    line: Line | None
    sheets: "tuple[_Patched, ...]" = ()

    def __call__(self, theta: Any, xp: Namespace = np) -> Any:
        """(...)."""
        psi = [_psi(axis, theta[..., j], xp) for j, axis in enumerate(self.axes)]
        if self.line is not None:
            return self.line(psi[0], xp)
        values = [one(theta[..., 0], psi[0], psi[1], xp) for one in self.sheets]
        highest = values[0]
        for value in values[1:]:
            highest = xp.maximum(highest, value)
        return highest


@final
@dataclass(frozen=True)
class _Patched:
    """One patch's sheet, in coordinates that follow its box."""

    sheet: Sheet
    outer: FloatArray  # (2,)
    inner: FloatArray  # (2, 4)
    centre: float
    radius: float
    together: bool

    def __call__(self, theta: Any, psi1: Any, psi2: Any, xp: Namespace) -> Any:
        if self.together:
            psi1 = (theta - self.centre) / xp.sqrt(xp.exp(psi2) + self.radius**2)
        t = (2 * psi2 - self.outer.sum()) / (self.outer[1] - self.outer[0])
        held = xp.clip(t, -1.0, 1.0)
        low, high = (
            c[0] + held * (c[1] + held * (c[2] + held * c[3])) for c in self.inner.tolist()
        )
        return self.sheet(t, (2 * psi1 - low - high) / (high - low), xp)


def _psi(axis: Axis, theta: Any, xp: Namespace) -> Any:
    """`Axis.psi` for NumPy and JAX."""
    if np.isinf(axis.lower) and np.isinf(axis.upper):
        return theta
    if np.isinf(axis.upper):
        return xp.log(theta - axis.lower)
    if np.isinf(axis.lower):
        return -xp.log(axis.upper - theta)
    return xp.log(theta - axis.lower) - xp.log(axis.upper - theta)


def tabulate(problem: Problem) -> Table:
    """Of a problem of one group, wherever its posterior under the problem's wide prior lies."""
    with np.errstate(all="ignore"):
        ((_, solution),) = Solver(problem, "auto", Request("")).solve()
        if isinstance(solution, OneParameter):
            grid = solution.batch.curves.grid
            psi = grid.psi[grid.value > grid.value.max() - RANGE]
            return Table(problem.axes, _line(problem, psi))
        assert isinstance(solution, TwoParameters)
        sheets = tuple(_sheet(problem, one) for one in solution.batch.patches[0])
        return Table(problem.axes, None, sheets)


def _exact(problem: Problem, psi: FloatArray) -> FloatArray:
    return precise(problem.observations[0], problem.theta(psi))


def _line(problem: Problem, psi: FloatArray) -> Line:
    """A spline through points that are halved until it says beforehand what the next ones say."""
    value = _exact(problem, psi)
    good = np.isfinite(value)
    psi, value = psi[good], value[good]
    open_ = np.ones(psi.size - 1, dtype=bool)
    for _ in range(ROUNDS):
        if not open_.any() or psi.size > MOST:
            break
        left = np.flatnonzero(open_)
        middle = (psi[left] + psi[left + 1]) / 2
        fresh = _exact(problem, middle)
        said = scipy.interpolate.CubicSpline(psi, value)(middle)
        fresh = np.where(np.isfinite(fresh), fresh, said)
        top = max(float(value.max()), float(fresh.max()))
        allowed = GOOD * np.exp(np.clip(top - fresh, 0.0, RANGE) / LOOSER)
        wrong = np.abs(fresh - said) > allowed
        rough = np.zeros(open_.size, dtype=bool)
        rough[left[wrong]] = True
        # beside a cell that was wrong the spline bends too
        rough[1:] |= rough[:-1].copy()
        rough[:-1] |= rough[1:].copy()
        split = np.zeros(open_.size, dtype=np.int64)
        split[left] = 1
        psi, value = np.insert(psi, left + 1, middle), np.insert(value, left + 1, fresh)
        open_ = np.repeat(rough, 1 + split)
    return Line(psi, value)


def _sheet(problem: Problem, patch: Patch) -> _Patched:
    """A table on the patch's box, of twice as many rows and columns until half of them do."""
    dense = patch.value.shape[1]
    unit = np.linspace(-1, 1, dense)
    rough = scipy.interpolate.RectBivariateSpline(unit, unit, patch.value[0])
    value, known = np.empty((0, 0)), np.zeros((0, 0), dtype=bool)
    for size in SIZES:
        at = np.linspace(-1, 1, size)
        psi = nodes(at, patch.outer, patch.inner)[0]  # (t, s, 2)
        group = np.zeros(size * size, dtype=np.int64)
        prior = problem.log_prior(psi.reshape(-1, 2), group).reshape(size, size)
        crude = rough(at, at) - prior
        below = patch.value.max() - rough(at, at)
        wanted = below < RANGE_OF_TWO
        fresh, before = crude.copy(), wanted.copy()
        if value.size:
            wanted[::2, ::2] = False
            fresh[::2, ::2], before[::2, ::2] = value, known
        exact = _exact(problem, psi[wanted])
        fresh[wanted] = np.where(np.isfinite(exact), exact, crude[wanted])
        # what is not known errs as the nearest point that is, so that there is no cliff
        nearest = scipy.ndimage.distance_transform_edt(
            ~before, return_distances=False, return_indices=True
        )
        fresh[~before] = (crude + (fresh - crude)[tuple(nearest)])[~before]
        settled = False
        if value.size:
            t, s = np.meshgrid(at, at, indexing="ij")
            gap = np.abs(Sheet(value)(t, s) - fresh)[wanted]
            settled = bool(np.all(gap < GOOD_OF_TWO * np.exp(below[wanted] / LOOSER)))
        value, known = fresh, before
        if settled:
            break
    bounds = problem.observations[0].bounds
    radius = 0.0 if bounds is None else (bounds.upper - bounds.lower) / 2
    return _Patched(
        Sheet(value), patch.outer[0], patch.inner[0], problem.centre, radius, problem.together
    )
