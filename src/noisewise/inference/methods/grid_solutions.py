"""Solutions on grids of one and of two parameters: figures, draws, and what their
certificates say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from noisewise.inference import effort, quantities
from noisewise.inference.certificate import Certificate
from noisewise.inference.grid import (
    margins,
    masses,
    one_parameter,
    peaks_of_one,
    peaks_of_two,
    two_parameters,
)
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.grid.marginal import Marginal
from noisewise.inference.grid.masses import Masses
from noisewise.inference.grid.one_parameter import Curves
from noisewise.inference.grid.patch import Patch
from noisewise.inference.methods.base import Request
from noisewise.inference.problem import Problem
from noisewise.inference.quantities import FromDensity, Quantity
from noisewise.inference.solution import Batch, Solution
from noisewise.inference.surprise import conflict, predictive_tail
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Parameter

FIRST_POINTS, FIRST_POINTS_OF_TWO = 49, 31
"""Of the first grid along a parameter, from within the prior to far beyond it: enough to find every
peak that is as wide as the prior or a hundredth of it; narrower ones are looked for by themselves.
"""
PEAK = 0.005
"""A patch of more mass than this is a peak of its own."""
CHECKED = (0.03, 0.25, 0.5, 0.75, 0.97)
"""Quantiles at which the exact likelihood is computed again with twice the quadrature nodes."""
UNCHECKED = 0.02
"""The error that is stated where this would take too long: enough for a warning."""
UNSETTLED = 0.08
"""An exact posterior of two parameters that is further off is no longer nearer than the normal
approximation: few records whose bounds redact leave cliffs that splines do not follow.
"""
CHECKED_DRAWS = 6
"""Of two parameters, draws at which it is."""


def solve_one(problem: Problem, exact: one_parameter.Exact | None) -> Curves:
    starts = peaks_of_one.starts(problem, problem.first_grid(0, FIRST_POINTS))
    return one_parameter.solve(problem.log_prior, problem.collapsed, exact, starts)


def solve_two(problem: Problem, exact: one_parameter.Exact | None) -> list[list[Patch]]:
    return two_parameters.solve(
        problem.log_prior,
        problem.pilot,
        problem.collapsed,
        exact,
        problem.first_grid(0, FIRST_POINTS_OF_TWO),
        problem.first_grid(1, FIRST_POINTS_OF_TWO),
        peaks_of_two.peaks(problem),
    )


@dataclass(frozen=True)
class _OnGrid(Solution):
    """One group of a batch; its figures are read off its marginals."""

    batch: Any
    group: int
    method: str

    def own_marginals(self) -> tuple[Marginal, ...]:
        """Of each parameter, of this group alone."""
        raise NotImplementedError

    def found_with(self) -> tuple[Batch, int]:
        return self.batch, self.group

    @cached_property
    def _marginals(self) -> tuple[Marginal, ...]:
        alone = self.batch.problem.groups == 1
        return self.batch.marginals() if alone else self.own_marginals()

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._marginals[parameter].moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._marginals[parameter].quantile(q).T

    def summary(self, parameter: int) -> FloatArray:
        return self._marginals[parameter].summary

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        return self._marginals[parameter].cdf(x.reshape(1, -1)).reshape(x.shape)

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._marginals[parameter].curve(0)

    def derived(self, which: Derived, parameters: Sequence[Parameter]) -> Quantity:
        if which.other is None:
            known = self._marginals[which.of]
            return FromDensity(quantities.of_one(which, parameters[which.of], known))
        found = self.batch.margin_of(which, self.group)
        if found is None:
            return super().derived(which, parameters)
        return FromDensity(Marginal.of(found, Axis(which.lower, which.upper)))


@dataclass(frozen=True)
class OneParameterBatch(Batch):
    """The posteriors of one parameter for all groups of a problem."""

    problem: Problem
    curves: Curves
    exact: bool
    request: Request

    @cached_property
    def _marginal(self) -> Marginal:
        return Marginal.of(
            self.curves.grid, self.problem.axes[0], self.decay, self.problem.tail_index(0)
        )

    def marginals(self) -> tuple[Marginal, ...]:
        return (self._marginal,)

    def marginal_of(self, which: Derived) -> Marginal:
        parameter = self.problem.family.parameters[0]
        return quantities.of_one(which, parameter, self._marginal)

    @cached_property
    def decay(self) -> FloatArray:
        """How fast the densities fall beyond the last floats of theta."""
        return self.problem.decay()


@dataclass(frozen=True)
class OneParameter(_OnGrid):
    """One group of them."""

    batch: OneParameterBatch

    def own_marginals(self) -> tuple[Marginal, ...]:
        one = self.batch.problem.take(np.array([self.group]))
        grid, decay = _only(self.batch.curves.grid, self.group), self.batch.decay[self.group, None]
        return (Marginal.of(grid, one.axes[0], decay, one.tail_index(0)),)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [self._marginals[0].draw(rng, size, 0)]

    def certificate(self) -> Certificate:
        found, axis = self.batch.curves, self.batch.problem.axes[0]
        problem = self.batch.problem.take(np.array([self.group]))
        crude = Masses.of(
            _only(found.collapsed, self.group), axis.range, self.batch.decay[self.group, None]
        )
        error = float(found.error[self.group]) + _grid_error(
            _only(found.grid, self.group), self._marginals[0].of_psi
        )
        distance = None
        if self.batch.exact:
            psi = axis.psi(self._marginals[0].quantile(np.array(CHECKED))[0])
            with effort.limited(effort.CHECK):
                error += _node_error(problem, psi)
            distance = float(masses.distance(self._marginals[0].of_psi, crude)[0])
        tail = predictive_tail(problem) if self.method != "naive" else None
        points = int(found.points[self.group]) if self.batch.exact else None
        return Certificate(
            self.method,
            self.batch.request.reason,
            error,
            distance,
            tail,
            evaluations=points,
            peaks=self._marginals[0].of_psi.peaks(0),
            assumptions=self.batch.request.assumptions,
            conflict=conflict(problem, partial(_draw_one, self.batch.exact)),
        )


@dataclass(frozen=True)
class TwoParameterBatch(Batch):
    """The posteriors of two parameters for all groups of a problem."""

    problem: Problem
    patches: list[list[Patch]]
    exact: bool
    request: Request

    def marginal_of(self, which: Derived) -> Marginal | None:
        if which.other is None:
            parameter = self.problem.family.parameters[which.of]
            return quantities.of_one(which, parameter, self._marginals[which.of])
        found = [self.margin_of(which, g) for g in range(len(self.patches))]
        grids = [grid for grid in found if grid is not None]
        axis = Axis(which.lower, which.upper)
        return Marginal.of(_joined(grids), axis) if len(grids) == len(found) else None

    def margin_of(self, which: Derived, group: int) -> Grid | None:
        """That of a quantity of both parameters, whose coordinate is a straight line in psi1 at
        every psi2; None where the prior's limits have bent the coordinates.
        """
        problem, other = self.problem, which.other
        first = problem.family.parameters[0]
        if other is None or problem.axes[0] != Axis.of(first):
            return None

        def stretch(psi2: FloatArray) -> FloatArray:
            return which.slope * self.stretch(psi2)

        def shift(psi2: FloatArray) -> FloatArray:
            return which.slope * problem.shift(psi2) + other(problem.axes[1].theta(psi2))

        centre = which.slope * problem.centre + which.shift
        return margins.margins(self.patches[group], centre, stretch, shift)[0]

    def stretch(self, psi2: FloatArray) -> FloatArray:
        """How much the first parameter moves per unit of psi1."""
        return self.problem.stretch(psi2) if self.problem.together else np.ones(psi2.shape)

    def second_of(self, patch: Patch) -> Grid:
        """The margin of psi2 of one patch."""
        return margins.margins([patch], 0.0, self.stretch, self.problem.shift)[1]

    def margins(self, group: int) -> tuple[Grid, Grid]:
        """Both margins of one group."""
        problem = self.problem
        return margins.margins(self.patches[group], problem.centre, self.stretch, problem.shift)

    @cached_property
    def _marginals(self) -> tuple[Marginal, ...]:
        axes, pairs = self.problem.axes, [self.margins(g) for g in range(len(self.patches))]
        first, second = (_joined([pair[j] for pair in pairs]) for j in (0, 1))
        index = [self.problem.tail_index(j) for j in (0, 1)]
        return Marginal.of(first, axes[0], index=index[0]), Marginal.of(
            second, axes[1], index=index[1]
        )

    def marginals(self) -> tuple[Marginal, ...]:
        return self._marginals


@dataclass(frozen=True)
class TwoParameters(_OnGrid):
    """One group of them."""

    batch: TwoParameterBatch

    @cached_property
    def _patches(self) -> list[Patch]:
        return self.batch.patches[self.group]

    @cached_property
    def _weights(self) -> FloatArray:
        mass = np.array([float(one.log_mass[0]) for one in self._patches])
        weight = np.exp(mass - mass.max())
        return np.asarray(weight / weight.sum())

    @cached_property
    def _error(self) -> float:
        """Of the densities on their grids."""
        return float(self._weights @ [float(one.error[0]) for one in self._patches])

    @property
    def settled(self) -> bool:
        return not self.batch.exact or self._error <= UNSETTLED

    def own_marginals(self) -> tuple[Marginal, ...]:
        one, grids = self.batch.problem.take(np.array([self.group])), self.batch.margins(self.group)
        return tuple(Marginal.of(grids[j], one.axes[j], index=one.tail_index(j)) for j in (0, 1))

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        psi = self._draw(rng, size)
        theta = self.batch.problem.theta(psi)
        return [theta[:, 0], theta[:, 1]]

    def _draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        axis, psi = self.batch.problem.axes[1], np.empty((size, 2))
        which = rng.choice(len(self._patches), size, p=self._weights)
        for k, one in enumerate(self._patches):
            rows = np.flatnonzero(which == k)
            second = Marginal.of(self.batch.second_of(one), axis)
            psi[rows, 1] = axis.psi(second.draw(rng, rows.size, 0))
            psi[rows, 0] = margins.draw(one, psi[rows, 1], rng)
        return psi

    def certificate(self) -> Certificate:
        problem = self.batch.problem.take(np.array([self.group]))
        weights, distance = self._weights, None
        error = self._error
        known = (one.of_psi for one in self._marginals)
        error += sum(map(_grid_error, self.batch.margins(self.group), known))
        if self.batch.exact:
            distance = _distance(self._patches)
            with effort.limited(effort.CHECK):
                error += _node_error(problem, self._draw(np.random.default_rng(0), CHECKED_DRAWS))
        points = sum(int(one.points[0]) for one in self._patches) if self.batch.exact else None
        tail = predictive_tail(problem) if self.method != "naive" else None
        return Certificate(
            self.method,
            self.batch.request.reason,
            error,
            distance,
            tail,
            evaluations=points,
            assumptions=self.batch.request.assumptions,
            peaks=int((weights > PEAK).sum()),
            conflict=conflict(problem, _draw_two),
        )


def _distance(patches: list[Patch]) -> float:
    """Total variation between the exact and the collapsed density, over all patches."""
    logs: list[list[FloatArray]] = [[], []]
    for one in patches:
        area = np.log(one.areas[0])
        for kept, values in zip(logs, (one.value[0], one.collapsed[0]), strict=True):
            kept.append((values + area).ravel())
    first, second = (np.concatenate(kept) for kept in logs)
    mass = [np.exp(value - value.max()) for value in (first, second)]
    return float(0.5 * np.abs(mass[0] / mass[0].sum() - mass[1] / mass[1].sum()).sum())


def _joined(parts: list[Grid]) -> Grid:
    """Grids of one group each as one of all."""
    start = np.concatenate([[0], np.cumsum([grid.psi.size for grid in parts])])
    return Grid(
        np.concatenate([grid.psi for grid in parts]),
        np.concatenate([grid.value for grid in parts]),
        start,
    )


def _draw_one(exact: bool, problem: Problem, size: int, rng: np.random.Generator) -> FloatArray:
    """theta given all releases of a problem of one parameter and one group."""
    found = solve_one(problem, problem.exact if exact else None)
    theta = Marginal.of(found.grid, problem.axes[0], problem.decay()).draw(rng, size, 0)
    return theta[:, None]


def _draw_two(problem: Problem, size: int, rng: np.random.Generator) -> FloatArray:
    """The same of two parameters, under the normal approximation."""
    batch = TwoParameterBatch(problem, solve_two(problem, None), False, Request(""))
    return np.stack(TwoParameters(batch, 0, "").draw(rng, size), axis=1)


def _only(grid: Grid, group: int) -> Grid:
    rows = grid.rows(group)
    return Grid(grid.psi[rows], grid.value[rows], np.array([0, rows.stop - rows.start]))


def _node_error(problem: Problem, psi: FloatArray) -> float:
    """How much the exact log-likelihood changes, but for a constant, with four times the quadrature
    nodes.
    """
    group = np.zeros(len(psi), dtype=np.int64)
    try:
        with np.errstate(all="ignore"):
            change = problem.exact(psi, group, least_order=128)[0] - problem.exact(psi, group)[0]
    except effort.TooMuchWork:
        return UNCHECKED
    return float(np.ptp(change)) / 2 if np.isfinite(change).all() else 1.0


def _grid_error(grid: Grid, fine: Masses) -> float:
    """Interpolation at third order: half the points err eight times as much, so their distance over
    7 is what is left.
    """
    if grid.psi.size < 9:
        return 0.0
    keep = np.unique(np.append(np.arange(0, grid.psi.size, 2), grid.psi.size - 1))
    coarse = Masses.of(
        Grid(grid.psi[keep], grid.value[keep], np.array([0, keep.size])), fine.floats, fine.decay
    )
    values = np.interp(fine.psi, coarse.psi, coarse.log_density)
    gap = np.abs(np.exp(values) - np.exp(fine.log_density))
    return float(np.sum(np.diff(fine.psi) * (gap[1:] + gap[:-1])) / 4 / 7)
