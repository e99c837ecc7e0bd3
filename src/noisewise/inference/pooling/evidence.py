"""Z_g(phi) = integral of L_g(theta) p(theta | phi): the evidence of each group for each population,
and the moments of theta_g given it.

Two rules share the work. The group's own nodes follow its likelihood, which may be far narrower
than the population; they serve where the population is smooth on their scale. Nodes of the
population serve where it is narrower than the group's panels: there the likelihood is the smooth
one. A population that lies beyond a group's nodes gets both, for the two places share nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.pooling.curves import Curve
from noisewise.inference.pooling.nodes import Interpolants, Panels, panels
from noisewise.inference.pooling.populations import Population
from noisewise.model.arrays import FloatArray, IntArray

HERMITE, HERMITE_WEIGHT = np.polynomial.hermite_e.hermegauss(11)
"""Nodes of a population that is narrow in psi, and so about normal."""
RESOLVED = 0.25
"""A population whose width is this share of a panel is resolved by its six nodes."""
REACH, MOST_PANELS = 6.0, 5
"""A population reaches so many of its widths. If it meets so few of a group's panels, and all of
them are too wide to resolve it, the likelihood is the smooth one.
"""
CHUNK = 192
"""Groups whose nodes are handled at once, and
POPULATIONS that are: what stays in the processor's cache.
"""
POPULATIONS = 8
FAR = 8.0
"""Where a narrow population lies at e^-8 of a likelihood's peak, the peak is looked at too."""
SHARP, SERVES = 0.01, 1e-3
"""A population narrower than 0.01 in psi is normal, to the square of that; of a wider one the
nodes serve if their weights add up to 1 within a thousandth.
"""
LOWEST = -1e290
"""In place of log 0."""


@dataclass(frozen=True)
class Evidence:
    """log Z, and given phi the mean and the mean square of theta less `origin`; (groups, points)
    each.
    """

    log_z: FloatArray
    first: FloatArray | None = None
    second: FloatArray | None = None


class Groups:
    """The likelihoods of all groups, ready to be integrated over any population."""

    def __init__(self, curves: Sequence[Curve], population: Population) -> None:
        self.curves, self.population = list(curves), population
        self.between = Interpolants.of(curves)
        self.parts = panels(curves, self.between, population, CHUNK)
        peak = [one.psi[int(np.argmax(one.value))] for one in curves]
        self.origin = population.axis.theta(np.array(peak))
        self.flat = np.array([one.flat for one in curves])
        self._features = [population.features(part.psi) for part in self.parts]
        self._theta = [
            population.axis.theta(part.psi) - self.origin[part.group, None] for part in self.parts
        ]

    def __len__(self) -> int:
        return len(self.curves)

    def log_z(self, at: FloatArray) -> FloatArray:
        """log Z, (groups, points)."""
        return self._integrate(at, False).log_z

    def moments(self, at: FloatArray) -> Evidence:
        """All of it."""
        return self._integrate(at, True)

    def _integrate(self, at: FloatArray, moments: bool) -> Evidence:
        shape = (len(self), len(at))
        log_z = np.zeros(shape)
        first, second = (np.zeros(shape), np.zeros(shape)) if moments else (None, None)
        if moments and self.flat.any():
            assert first is not None
            assert second is not None
            away = self.population.mean(at) - self.origin[self.flat, None]
            first[self.flat] = away
            second[self.flat] = away**2 + self.population.spread(at) ** 2
        narrow = _Narrow.of(self.population, at)
        weight, constant = self.population.weights(at)
        decay = self.population.decay(at)
        for part, features, theta in zip(self.parts, self._features, self._theta, strict=True):
            own, beside = self._rules(part, narrow)
            sums = self._by_group(part, features, theta, weight, constant, decay, moments)
            value, ones, twos = (np.where(own, x, LOWEST if k == 0 else 0.0)
                                 for k, x in enumerate(sums))
            row, column = np.nonzero(beside)
            if row.size:
                more = self._by_population(part.group[row], column, narrow, moments)
                if not moments:
                    aside = self._aside(part, features, row, column, narrow, at)
                    more = (np.logaddexp(more[0], aside), more[1], more[2])
                before = value[row, column]
                total = np.logaddexp(before, more[0])
                if moments:
                    old, new = np.exp(before - total), np.exp(more[0] - total)
                    ones[row, column] = ones[row, column] * old + more[1] * new
                    twos[row, column] = twos[row, column] * old + more[2] * new
                value[row, column] = total
            log_z[part.group] = value
            if moments:
                assert first is not None
                assert second is not None
                first[part.group], second[part.group] = ones, twos
        return Evidence(log_z, first, second)

    def _rules(self, part: Panels, narrow: "_Narrow") -> tuple[FloatArray, FloatArray]:
        """For each (group, point) whether the group's nodes serve, and whether the
        population's do.
        """
        first, last = narrow.centre - REACH * narrow.width, narrow.centre + REACH * narrow.width
        touched = (last >= part.edges[:, :1]) & (first <= part.edges[:, -1:])
        i, j = ((part.edges[:, 1:-1, None] <= psi).sum(axis=1) for psi in (first, last))
        widths = np.diff(part.edges)
        finest = np.full(touched.shape, np.inf)
        for step in range(MOST_PANELS):
            here = np.take_along_axis(widths, np.minimum(i + step, j), axis=1)
            np.minimum(finest, np.where(here > 0, here, np.inf), out=finest)
        coarse = (j - i < MOST_PANELS) & (RESOLVED * finest > narrow.width)
        return ~(touched & coarse & narrow.serves), (coarse | ~touched) & narrow.serves

    def _by_group(
        self,
        part: Panels,
        features: FloatArray,
        theta: FloatArray,
        weight: FloatArray,
        constant: FloatArray,
        decay: FloatArray,
        moments: bool,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """log Z and the moments by the group's own nodes, (groups of the part, points) each."""
        groups, points = part.group.size, len(weight)
        out = np.empty((3, groups, points))
        ends = self._ends(part, weight, constant, decay)
        for start in range(0, points, POPULATIONS):
            some = slice(start, start + POPULATIONS)
            value = features @ weight[some].T + part.log_weight[:, :, None]  # (groups, k, some)
            top = np.maximum(value.max(axis=1), np.maximum(ends[0], ends[1])[:, some])
            top = np.maximum(top, LOWEST)
            np.exp(value - top[:, None, :], out=value)
            total = value.sum(axis=1)
            beyond = [np.exp(one[:, some] - top) for one in ends]
            if moments:
                first = np.einsum("gkp,gk->gp", value, theta)
                second = np.einsum("gkp,gk->gp", value, theta**2)
                for side, mass in zip((0, -1), beyond, strict=True):
                    away = self.population.axis.theta(part.edges[:, side])
                    away = (away - self.origin[part.group])[:, None]
                    first += np.where(mass > 0, mass * away, 0.0)
                    second += np.where(mass > 0, mass * away**2, 0.0)
            total += beyond[0] + beyond[1]
            with np.errstate(divide="ignore", invalid="ignore"):
                out[0][:, some] = np.maximum(np.log(total) + top + constant[some], LOWEST)
                if moments:
                    out[1][:, some] = np.nan_to_num(first / total)
                    out[2][:, some] = np.nan_to_num(second / total)
        return out[0], out[1], out[2]

    def _ends(
        self, part: Panels, weight: FloatArray, constant: FloatArray, decay: FloatArray
    ) -> list[FloatArray]:
        """The log of what lies beyond the first and the last node, (groups, points) each, where a
        population reaches beyond them as an exponential and the likelihood is flat or one too.
        """
        out = []
        for side, sign in ((0, 1.0), (-1, -1.0)):
            end = part.edges[:, side]
            value = self.between.at(end, part.group)
            place = self.between.start[part.group + (0 if side == 0 else 1)] + side
            falls = sign * self.between.slope[place]
            features = self.population.features(end)
            slope = sign * (self.population.features(end + 1e-4) - features) / 1e-4
            rate = slope @ weight.T  # of the population at the end: it falls outward if positive
            exponential = rate > 0.9 * decay[:, 0 if side == 0 else 1]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                log = features @ weight.T + value[:, None] - np.log(rate + falls[:, None])
            out.append(np.where(exponential, log, -np.inf))
        return out

    def _aside(
        self,
        part: Panels,
        features: FloatArray,
        row: IntArray,
        column: IntArray,
        narrow: "_Narrow",
        at: FloatArray,
    ) -> FloatArray:
        """log of what the group's nodes add away from where the population is, for pairs that the
        population's nodes serve: something where it lies far from the likelihood's peak.
        """
        out = np.full(row.size, -np.inf)
        group = part.group[row]
        far = np.flatnonzero(self.between.at(narrow.centre[column], group) < -FAR)
        if far.size == 0:
            return out
        weight, constant = self.population.weights(at[column[far]])
        for start in range(0, far.size, CHUNK * POPULATIONS):
            some = slice(start, start + CHUNK * POPULATIONS)
            rows, columns = row[far[some]], column[far[some]]
            value = np.einsum("nkf,nf->nk", features[rows], weight[some]) + constant[some, None]
            value += part.log_weight[rows]
            away = np.abs(part.psi[rows] - narrow.centre[columns, None])
            value[away < REACH * narrow.width[columns, None]] = -np.inf
            top = np.maximum(value.max(axis=1), LOWEST)
            with np.errstate(divide="ignore"):
                total = np.log(np.exp(value - top[:, None]).sum(axis=1))
            out[far[some]] = np.maximum(top + total, LOWEST)
        return out

    def _by_population(
        self, group: IntArray, point: IntArray, narrow: "_Narrow", moments: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same by the population's nodes, for pairs of a group and a point."""
        psi = narrow.psi[point]  # (pairs, nodes)
        value = self.between.at(psi, np.broadcast_to(group[:, None], psi.shape))
        value += narrow.log_weight[point]
        top = value.max(axis=1)
        mass = np.exp(value - top[:, None])
        total = mass.sum(axis=1)
        log = np.maximum(top + np.log(total), LOWEST)
        if not moments:
            return log, log, log
        theta = self.population.axis.theta(psi) - self.origin[group, None]
        return log, (mass * theta).sum(axis=1) / total, (mass * theta**2).sum(axis=1) / total


@dataclass(frozen=True)
class _Narrow:
    """Nodes of populations in psi: right where these are narrow."""

    centre: FloatArray  # (points,)
    width: FloatArray
    psi: FloatArray  # (points, nodes)
    log_weight: FloatArray
    serves: FloatArray  # (points,): whether the nodes' weights add up to 1

    @classmethod
    def of(cls, population: Population, at: FloatArray) -> "_Narrow":
        centre, width = population.centre(at), population.width(at)
        psi = np.clip(centre[:, None] + width[:, None] * HERMITE, *population.axis.range)
        weight, constant = population.weights(at)
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.einsum("pkf,pf->pk", population.features(psi), weight) + constant[:, None]
            value += HERMITE**2 / 2 + np.log(HERMITE_WEIGHT) + np.log(width)[:, None]
            value = np.nan_to_num(value, nan=LOWEST, neginf=LOWEST)
            total = np.log(np.exp(np.minimum(value, 50.0)).sum(axis=1))
        sharp = width < SHARP * population.unit
        value[sharp] = np.log(HERMITE_WEIGHT) - np.log(2 * np.pi) / 2
        return cls(centre, width, psi, value, sharp | (np.abs(total) < SERVES))
