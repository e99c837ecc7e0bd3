"""Posteriors as the methods leave them: a line, a sheet, counts summed over or in a chain, or plain draws."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewise.inference import counts, density, diagnostics, sheet
from noisewise.inference.betas import Betas
from noisewise.inference.certificate import Certificate
from noisewise.inference.convolution import Convolution
from noisewise.inference.counts import Chain
from noisewise.inference.density import Density
from noisewise.inference.grid import Grid
from noisewise.inference.line import Line
from noisewise.inference.posterior import View
from noisewise.inference.predictive import predictive_tail
from noisewise.inference.problem import Problem
from noisewise.inference.sheet import Sheet
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Dirichlet

CHECKED = (0.03, 0.25, 0.5, 0.75, 0.97)
"""Quantiles at which the exact likelihood is computed again with twice the quadrature nodes."""


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
        return Density.of(self.line.grid, self.problem.axes[0])


@dataclass(frozen=True)
class LineView(View):
    """One group of a line."""

    batch: LineBatch
    group: int
    method: str

    @cached_property
    def _density(self) -> Density:
        grid = _only(self.batch.line.grid, self.group)
        return Density.of(grid, self.batch.problem.axes[0])

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._density.moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._density.quantile(q).T

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._density.curve(0)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [self._density.draw(rng, size, 0)]

    def certificate(self) -> Certificate:
        line, axis = self.batch.line, self.batch.problem.axes[0]
        problem = self.batch.problem.take(np.array([self.group]))
        crude = Density.of(_only(line.collapsed, self.group), axis)
        error = float(line.error[self.group]) + _grid_error(_only(line.grid, self.group), self._density)
        distance = None
        if self.batch.exact:
            psi = axis.psi(self._density.quantile(np.array(CHECKED))[0])
            error += _node_error(problem, psi)
            distance = float(density.distance(self._density, crude)[0])
        tail = predictive_tail(problem) if self.method != "naive" else None
        points = int(line.points[self.group]) if self.batch.exact else None
        return Certificate(
            self.method, self.batch.reason, error, distance, tail, evaluations=points, peaks=self._density.peaks(0),
            assumptions=self.batch.assumptions,
        )  # fmt: skip


@dataclass(frozen=True)
class SheetBatch:
    """The posteriors of two parameters for all groups of a problem."""

    problem: Problem
    sheet: Sheet
    exact: bool
    reason: str
    assumptions: tuple[str, ...] = ()

    @cached_property
    def densities(self) -> tuple[Density, Density]:
        """Both margins of all groups."""
        axes = self.problem.axes
        first, second = sheet.margins(self.sheet, self.sheet.value)
        return Density.of(first, axes[0]), Density.of(second, axes[1])


@dataclass(frozen=True)
class SheetView(View):
    """One group of a sheet."""

    batch: SheetBatch
    group: int
    method: str

    @cached_property
    def _sheet(self) -> Sheet:
        return self.batch.sheet.take(self.group)

    @cached_property
    def _densities(self) -> tuple[Density, Density]:
        axes = self.batch.problem.axes
        first, second = sheet.margins(self._sheet, self._sheet.value)
        return Density.of(first, axes[0]), Density.of(second, axes[1])

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._densities[parameter].moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._densities[parameter].quantile(q).T

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._densities[parameter].curve(0)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        axes = self.batch.problem.axes
        second = self._densities[1].draw(rng, size, 0)
        first = sheet.draw(self._sheet, 0, axes[1].psi(second), rng)
        return [axes[0].theta(first), second]

    def certificate(self) -> Certificate:
        one, problem = self._sheet, self.batch.problem.take(np.array([self.group]))
        error, distance = float(one.error[0]), None
        error += sum(map(_grid_error, sheet.margins(one, one.value), self._densities))
        if self.batch.exact:
            height = [np.exp(values - values.max()) for values in (one.value[0], one.collapsed[0])]
            low, high = sheet.limits(one.inner, np.linspace(-1, 1, one.value.shape[1]))
            mass = [h * (high - low)[0][:, None] for h in height]
            distance = float(0.5 * np.abs(mass[0] / mass[0].sum() - mass[1] / mass[1].sum()).sum())
            rng = np.random.default_rng(0)
            axes = problem.axes
            psi2 = axes[1].psi(self._densities[1].quantile(np.array([0.1, 0.5, 0.9]))[0])
            error += _node_error(problem, np.stack([sheet.draw(one, 0, psi2, rng), psi2], axis=1))
        points = int(one.points[0]) if self.batch.exact else None
        tail = predictive_tail(problem) if self.method != "naive" else None
        return Certificate(
            self.method, self.batch.reason, error, distance, tail, evaluations=points, assumptions=self.batch.assumptions
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
        return Certificate(self.method, self.reason, chain.error, None, tail, chain.rhat, chain.ess, chain.autocorrelation)


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
        return Certificate(self.method, self.reason, self.error, None, predictive_tail(self.problem))


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
        rows = np.floor(np.arange(size) * total / size).astype(np.int64) if size <= total else rng.integers(total, size=size)
        out = [self._columns(j)[rows] for j in range(len(self.problem.family.parameters))]
        return [values[:, 0] if p.size == 1 else values for values, p in zip(out, self.problem.family.parameters, strict=True)]

    def certificate(self) -> Certificate:
        found = diagnostics.of(self.chains)
        tail = predictive_tail(self.problem)
        return Certificate(
            self.method, self.reason, None, None, tail,
            float(found.rhat.max()), float(found.ess.min()), float(found.autocorrelation.max()),
        )  # fmt: skip


def _only(grid: Grid, group: int) -> Grid:
    rows = grid.rows(group)
    return Grid(grid.psi[rows], grid.value[rows], np.array([0, rows.stop - rows.start]))


def _node_error(problem: Problem, psi: FloatArray) -> float:
    """How much the exact log-likelihood changes, but for a constant, with four times the quadrature nodes."""
    group = np.zeros(len(psi), dtype=np.int64)
    change = problem.exact(psi, group, least_order=128)[0] - problem.exact(psi, group)[0]
    return float(np.ptp(change)) / 2


def _grid_error(grid: Grid, fine: Density) -> float:
    """Interpolation at third order: half the points err eight times as much, so their distance over 7 is what is left."""
    if grid.psi.size < 9:
        return 0.0
    keep = np.unique(np.append(np.arange(0, grid.psi.size, 2), grid.psi.size - 1))
    coarse = Density.of(Grid(grid.psi[keep], grid.value[keep], np.array([0, keep.size])), fine.axis)
    values = np.interp(fine.psi, coarse.psi, coarse.log_density)
    gap = np.abs(np.exp(values) - np.exp(fine.log_density))
    return float(np.sum(np.diff(fine.psi) * (gap[1:] + gap[:-1])) / 4 / 7)
