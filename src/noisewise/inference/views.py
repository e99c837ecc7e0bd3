"""Posteriors as the methods leave them: a line, a sheet, counts summed over or in a chain, or plain
draws.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference import (
    counts,
    density,
    diagnostics,
    effort,
    line,
    modes,
    modes_of_two,
    sheet,
)
from noisewise.inference.betas import Betas
from noisewise.inference.certificate import Certificate
from noisewise.inference.convolution import Convolution
from noisewise.inference.counts import Chain
from noisewise.inference.density import Density
from noisewise.inference.grid import Grid
from noisewise.inference.line import Line
from noisewise.inference.posterior import View
from noisewise.inference.predictive import conflict, predictive_tail
from noisewise.inference.problem import Problem
from noisewise.inference.sheet import Sheet
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family
from noisewise.model.priors import Dirichlet

LEAST = 0.005
"""A patch of more mass than this is a peak of its own."""
CHECKED = (0.03, 0.25, 0.5, 0.75, 0.97)
"""Quantiles at which the exact likelihood is computed again with twice the quadrature nodes."""

LINE_POINTS, SHEET_POINTS = 49, 31
"""Of the first grids on which the posterior given some of the releases is sought."""


@dataclass(frozen=True)
class LineBatch:
    """The posteriors of one parameter for all groups of a problem."""

    problem: Problem
    line: Line
    exact: bool
    reason: str
    assumptions: tuple[str, ...] = ()

    @cached_property
    def density(self) -> Density:
        """All groups at once."""
        return Density.of(
            self.line.grid, self.problem.axes[0], self.decay, self.problem.tail_index(0)
        )

    @cached_property
    def decay(self) -> FloatArray:
        """How fast the densities fall beyond the last floats of theta."""
        return self.problem.decay()


@dataclass(frozen=True)
class LineView(View):
    """One group of a line."""

    batch: LineBatch
    group: int
    method: str

    @cached_property
    def _density(self) -> Density:
        one = self.batch.problem.take(np.array([self.group]))
        grid = _only(self.batch.line.grid, self.group)
        return Density.of(grid, one.axes[0], self.batch.decay[self.group, None], one.tail_index(0))

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._density.moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._density.quantile(q).T

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._density.curve(0)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [self._density.draw(rng, size, 0)]

    def certificate(self) -> Certificate:
        found, axis = self.batch.line, self.batch.problem.axes[0]
        problem = self.batch.problem.take(np.array([self.group]))
        crude = Density.of(
            _only(found.collapsed, self.group), axis, self.batch.decay[self.group, None]
        )
        error = float(found.error[self.group]) + _grid_error(
            _only(found.grid, self.group), self._density
        )
        distance = None
        if self.batch.exact:
            psi = axis.psi(self._density.quantile(np.array(CHECKED))[0])
            with effort.limited(effort.CHECK):
                error += _node_error(problem, psi)
            distance = float(density.distance(self._density, crude)[0])
        tail = predictive_tail(problem) if self.method != "naive" else None
        points = int(found.points[self.group]) if self.batch.exact else None
        return Certificate(
            self.method,
            self.batch.reason,
            error,
            distance,
            tail,
            evaluations=points,
            peaks=self._density.peaks(0),
            assumptions=self.batch.assumptions,
            conflict=conflict(problem, partial(_draw_line, self.batch.exact)),
        )


@dataclass(frozen=True)
class SheetBatch:
    """The posteriors of two parameters for all groups of a problem."""

    problem: Problem
    sheets: list[list[Sheet]]
    exact: bool
    reason: str
    assumptions: tuple[str, ...] = ()

    def stretch(self, psi2: FloatArray) -> FloatArray:
        """How much the first parameter moves per unit of psi1."""
        return self.problem.stretch(psi2) if self.problem.together else np.ones(psi2.shape)

    def margins(self, group: int) -> tuple[Grid, Grid]:
        """Both margins of one group."""
        return sheet.margins(self.sheets[group], self.problem.centre, self.stretch)

    @cached_property
    def densities(self) -> tuple[Density, Density]:
        """Both margins of all groups."""
        axes, pairs = self.problem.axes, [self.margins(g) for g in range(len(self.sheets))]
        first, second = (_joined([pair[j] for pair in pairs]) for j in (0, 1))
        index = [self.problem.tail_index(j) for j in (0, 1)]
        return Density.of(first, axes[0], index=index[0]), Density.of(
            second, axes[1], index=index[1]
        )


@dataclass(frozen=True)
class SheetView(View):
    """One group of sheets."""

    batch: SheetBatch
    group: int
    method: str

    @cached_property
    def _sheets(self) -> list[Sheet]:
        return self.batch.sheets[self.group]

    @cached_property
    def _weights(self) -> FloatArray:
        mass = np.array([float(one.log_mass[0]) for one in self._sheets])
        weight = np.exp(mass - mass.max())
        return np.asarray(weight / weight.sum())

    @cached_property
    def _densities(self) -> tuple[Density, Density]:
        one = self.batch.problem.take(np.array([self.group]))
        margins = self.batch.margins(self.group)
        first, second = (
            Density.of(margins[j], one.axes[j], index=one.tail_index(j)) for j in (0, 1)
        )
        return first, second

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._densities[parameter].moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._densities[parameter].quantile(q).T

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._densities[parameter].curve(0)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        psi = self._draw(rng, size)
        theta = self.batch.problem.theta(psi)
        return [theta[:, 0], theta[:, 1]]

    def _draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        axis, psi = self.batch.problem.axes[1], np.empty((size, 2))
        which = rng.choice(len(self._sheets), size, p=self._weights)
        for k, one in enumerate(self._sheets):
            rows = np.flatnonzero(which == k)
            second = Density.of(sheet.margins([one], 0.0, self.batch.stretch)[1], axis)
            psi[rows, 1] = axis.psi(second.draw(rng, rows.size, 0))
            psi[rows, 0] = sheet.draw(one, psi[rows, 1], rng)
        return psi

    def certificate(self) -> Certificate:
        problem = self.batch.problem.take(np.array([self.group]))
        weights, distance = self._weights, None
        error = float(weights @ [float(one.error[0]) for one in self._sheets])
        error += sum(map(_grid_error, self.batch.margins(self.group), self._densities))
        if self.batch.exact:
            distance = _distance(self._sheets)
            with effort.limited(effort.CHECK):
                error += _node_error(problem, self._draw(np.random.default_rng(0), 6))
        points = sum(int(one.points[0]) for one in self._sheets) if self.batch.exact else None
        tail = predictive_tail(problem) if self.method != "naive" else None
        return Certificate(
            self.method,
            self.batch.reason,
            error,
            distance,
            tail,
            evaluations=points,
            assumptions=self.batch.assumptions,
            peaks=int((weights > LEAST).sum()),
            conflict=conflict(problem, _draw_sheet),
        )


def _distance(sheets: list[Sheet]) -> float:
    """Total variation between the exact and the collapsed density, over all patches."""
    logs: list[list[FloatArray]] = [[], []]
    for one in sheets:
        low, high = sheet.limits(one.inner, np.linspace(-1, 1, one.value.shape[1]))
        area = np.log((high - low)[0] * np.diff(one.outer[0]))[:, None] - 2 * np.log(
            one.value.shape[1]
        )
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


@dataclass(frozen=True)
class CountsView(View):
    """A categorical's probabilities: a mixture of Dirichlets over the chain's counts."""

    problem: Problem
    chain: Chain
    concentration: FloatArray
    method: str
    reason: str

    @cached_property
    def _betas(self) -> Betas:
        return counts.betas(self.chain.counts, self.concentration)

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._betas.moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._betas.quantiles(q)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [counts.draw(self.chain.counts, self.concentration, size, rng)]

    def certificate(self) -> Certificate:
        chain = self.chain
        if chain.counts.shape[0] < 2:
            return Certificate(self.method, self.reason)
        tail = predictive_tail(self.problem)
        apart = conflict(self.problem, lambda _, size, rng: self.draw(rng, size)[0], apart=0)
        return Certificate(
            self.method,
            self.reason,
            chain.error,
            None,
            tail,
            chain.rhat,
            chain.ess,
            chain.autocorrelation,
            conflict=apart,
        )


@dataclass(frozen=True)
class SummedView(View):
    """A categorical's probabilities, the true counts summed over by convolution."""

    problem: Problem
    convolution: Convolution
    betas: Betas
    error: float
    method: str
    reason: str

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self.betas.moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self.betas.quantiles(q)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        held = self.convolution.draw(rng, size)
        return [Dirichlet(self.convolution.a + held).draw(rng, size)]

    def certificate(self) -> Certificate:
        return Certificate(
            self.method, self.reason, self.error, None, predictive_tail(self.problem)
        )


@dataclass(frozen=True)
class DrawsView(View):
    """Chains of a sampler, (steps, chains, p); a parameter of k numbers takes k columns."""

    problem: Problem
    chains: FloatArray
    method: str
    reason: str

    def _columns(self, parameter: int) -> FloatArray:
        sizes = [p.size for p in self.problem.family.parameters]
        start = sum(sizes[:parameter])
        return self.chains[:, :, start : start + sizes[parameter]].reshape(-1, sizes[parameter])

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        values = self._columns(parameter)
        return values.mean(axis=0), values.std(axis=0)

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(self._columns(parameter), q, axis=0))

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        total = self.chains.shape[0] * self.chains.shape[1]
        rows = (
            np.floor(np.arange(size) * total / size).astype(np.int64)
            if size <= total
            else rng.integers(total, size=size)
        )
        out = [self._columns(j)[rows] for j in range(len(self.problem.family.parameters))]
        return [
            values[:, 0] if p.size == 1 else values
            for values, p in zip(out, self.problem.family.parameters, strict=True)
        ]

    def certificate(self) -> Certificate:
        found = diagnostics.of(self.chains)
        tail = predictive_tail(self.problem)
        return Certificate(
            self.method,
            self.reason,
            None,
            None,
            tail,
            float(found.rhat.max()),
            float(found.ess.min()),
            float(found.autocorrelation.max()),
        )


@dataclass(frozen=True)
class NoView(View):
    """A group for which no method gives an answer, among others that have one."""

    family: Family
    why: str

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        nothing = np.full(self.family.parameters[parameter].size, np.inf)
        return nothing, nothing

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return np.full((q.size, self.family.parameters[parameter].size), np.inf)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        raise UnsupportedCombination(f"there are no draws of this posterior: {self.why}.")

    def certificate(self) -> Certificate:
        return Certificate("none", self.why)


def _draw_line(exact: bool, problem: Problem, size: int, rng: np.random.Generator) -> FloatArray:
    """theta given all releases of a problem of one parameter and one group."""
    likelihood = problem.exact if exact else None
    starts = modes.starts(problem, problem.first_grid(0, LINE_POINTS))
    found = line.solve(problem.log_prior, problem.collapsed, likelihood, starts)
    return Density.of(found.grid, problem.axes[0], problem.decay()).draw(rng, size, 0)[:, None]


def _draw_sheet(problem: Problem, size: int, rng: np.random.Generator) -> FloatArray:
    """The same of two parameters, under the normal approximation."""
    grids = problem.first_grid(0, SHEET_POINTS), problem.first_grid(1, SHEET_POINTS)
    found = sheet.solve(
        problem.log_prior,
        problem.pilot,
        problem.collapsed,
        None,
        *grids,
        modes_of_two.peaks(problem),
    )
    return np.stack(SheetView(SheetBatch(problem, found, False, ""), 0, "").draw(rng, size), axis=1)


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
        return 0.02  # not checked
    return float(np.ptp(change)) / 2 if np.isfinite(change).all() else 1.0


def _grid_error(grid: Grid, fine: Density) -> float:
    """Interpolation at third order: half the points err eight times as much, so their distance over
    7 is what is left.
    """
    if grid.psi.size < 9:
        return 0.0
    keep = np.unique(np.append(np.arange(0, grid.psi.size, 2), grid.psi.size - 1))
    coarse = Density.of(
        Grid(grid.psi[keep], grid.value[keep], np.array([0, keep.size])), fine.axis, fine.decay
    )
    values = np.interp(fine.psi, coarse.psi, coarse.log_density)
    gap = np.abs(np.exp(values) - np.exp(fine.log_density))
    return float(np.sum(np.diff(fine.psi) * (gap[1:] + gap[:-1])) / 4 / 7)
