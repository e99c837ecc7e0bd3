"""Hamiltonian steps for many chains of many groups in one batch.

Each group has a preconditioner of its own, at first from the curvature where the density is
highest, then from what its chains have seen; and a step size that keeps about 65 % of its
proposals. What a group draws depends on its own generator alone.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from noisewise.inference.columns.target import Target
from noisewise.model.arrays import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

CLIMBS = 25
"""Newton steps to the highest point: quadratic where the noise is small, damped where it is not."""
NUDGE = 1e-5
"""For differences: moments and densities bend over distances of about 1, whatever N."""
STAGES = (25, 35, 40)
"""Steps of the warm-up, after each of which the preconditioner is estimated anew."""
KEPT = 0.65
"""The share of proposals that step sizes aim at."""
LEAPS = (9, 12, 8, 14, 7, 11, 10)
"""Leapfrog steps of one proposal after the other: about a quarter turn, never the same for long."""
STUCK = 0.1
"""A chain that keeps a smaller share of its proposals does not move."""
FAR = 1e7
"""A coordinate further out stands for a moment at its very limit."""


class Sampler:
    """Chains of some groups: warmed up when made, and then asked for as many steps as it takes."""

    def __init__(
        self, target: Target, generators: Sequence[np.random.Generator], chains: int
    ) -> None:
        self.generators, self.chains = list(generators), chains
        centre, root = peak(target)
        groups, d = len(self.generators), target.dimension
        wide = target.take(np.repeat(np.arange(groups), chains))
        self.state = _State(wide, groups, chains, centre, root)
        self.step = np.full(groups, 0.35 * min(1.0, (11 / d) ** 0.25))
        self.state.begin(self._normal(1)[:, 0])
        for length in STAGES:
            self.go(length, adapt=True)

    def _normal(self, steps: int) -> FloatArray:
        shape = (steps, self.chains, self.state.target.dimension)
        return np.stack([rng.standard_normal(shape) for rng in self.generators])

    def go(self, steps: int, adapt: bool = False) -> FloatArray:
        """So many steps of every chain, (groups, steps, chains, d). Where they are part of the
        warm-up, the step size follows them, and then the preconditioner.
        """
        normal = self._normal(steps)
        uniform = np.stack([rng.random((steps, 2, self.chains)) for rng in self.generators])
        out, seen = np.empty(normal.shape), []
        kept = np.zeros(uniform[:, 0, 0].shape)
        for k in range(steps):
            odds = self.state.move(normal[:, k], uniform[:, k], self.step, LEAPS[k % len(LEAPS)])
            kept += odds / steps
            if adapt:
                change = np.exp((odds.mean(axis=1) - KEPT) / np.sqrt(1 + k / 3))
                self.step = np.clip(self.step * change, 1e-4, 2.0)
                if k >= steps // 3:
                    seen.append(self.state.z.copy())
            out[:, k] = self.state.x.reshape(out[:, k].shape)
        if adapt:
            self.state.free(kept < STUCK)
            self.state.renew(np.stack(seen, axis=1))
        return out

    def only(self, groups: Sequence[int]) -> None:
        """Go on with some of the groups."""
        self.generators = [self.generators[g] for g in groups]
        self.step = self.step[list(groups)]
        self.state = self.state.take(np.array(groups))


class _State:
    """Where the chains are: x = centre + root z, a group's own."""

    def __init__(
        self, target: Target, groups: int, chains: int, centre: FloatArray, root: FloatArray
    ) -> None:
        self.target, self.groups, self.chains = target, groups, chains
        self.centre, self.root = centre, root
        self.z = self.x = self.value = self.gradient = np.empty(0)

    def take(self, groups: IntArray) -> "_State":
        """Of some of the groups."""
        rows = (groups[:, None] * self.chains + np.arange(self.chains)).ravel()
        out = _State(
            self.target.take(rows), groups.size, self.chains, self.centre[groups], self.root[groups]
        )
        out.z, out.x = self.z[groups], self.x[rows]
        out.value, out.gradient = self.value[groups], self.gradient[groups]
        return out

    def _look(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """x, the log density and its gradient in z, at z of shape (groups, chains, d)."""
        x = self.centre[:, None, :] + z @ self.root.swapaxes(1, 2)
        flat = x.reshape(-1, x.shape[2])
        near = np.asarray((np.abs(flat) < FAR).all(axis=1))
        value, gradient = self.target.value(np.where(near[:, None], flat, 0.0))
        good = near & np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        value = np.where(good, value, -np.inf)
        gradient = np.where(good[:, None], gradient, 0.0).reshape(x.shape)
        return flat, value.reshape(z.shape[:2]), gradient @ self.root

    def begin(self, normal: FloatArray) -> None:
        """About the highest point; where that is impossible, at it."""
        for size in (1.0, 0.5, 0.1, 0.0):
            z = size * normal
            x, value, gradient = self._look(z)
            fresh = ~np.isfinite(self.value) if self.value.size else np.ones(z.shape[:2], bool)
            if not self.value.size:
                self.z, self.x, self.value, self.gradient = z, x, value, gradient
            else:
                self._take(fresh, z, x, value, gradient)

    def _take(
        self,
        which: FloatArray,
        z: FloatArray,
        x: FloatArray,
        value: FloatArray,
        gradient: FloatArray,
    ) -> None:
        self.z = np.where(which[:, :, None], z, self.z)
        self.x = np.where(which.reshape(-1)[:, None], x, self.x)
        self.value = np.where(which, value, self.value)
        self.gradient = np.where(which[:, :, None], gradient, self.gradient)

    def move(
        self, normal: FloatArray, uniform: FloatArray, step: FloatArray, leaps: int
    ) -> FloatArray:
        """One proposal of every chain; returns its odds of being kept, (groups, chains)."""
        size = (step[:, None] * (0.8 + 0.4 * uniform[:, 1]))[:, :, None]
        momentum = normal + size / 2 * self.gradient
        z = self.z
        for leap in range(leaps):
            z = z + size * momentum
            x, value, gradient = self._look(z)
            momentum = momentum + (size if leap < leaps - 1 else size / 2) * gradient
        before = self.value - 0.5 * (normal**2).sum(axis=2)
        after = value - 0.5 * (momentum**2).sum(axis=2)
        with np.errstate(over="ignore", invalid="ignore"):
            odds = np.nan_to_num(np.exp(np.minimum(after - before, 0.0)))
        self._take(uniform[:, 0] < odds, z, x, value, gradient)
        return np.asarray(odds)

    def free(self, stuck: BoolArray) -> None:
        """Put chains that do not move where another one of their group is: in the warm-up, one that
        began where the density is too steep for the others' steps would stay there for good.
        """
        chain = np.arange(self.chains)
        order = np.argsort(np.where(stuck, 1, 0), axis=1, kind="stable")  # those that move, first
        free = np.maximum((~stuck).sum(axis=1), 1)[:, None]
        source = np.where(stuck, np.take_along_axis(order, chain % free, axis=1), chain)
        rows = (np.arange(self.groups)[:, None] * self.chains + source).ravel()
        self.z = np.take_along_axis(self.z, source[:, :, None], axis=1)
        self.x = self.x[rows]
        self.value = np.take_along_axis(self.value, source, axis=1)
        self.gradient = np.take_along_axis(self.gradient, source[:, :, None], axis=1)

    def renew(self, seen: FloatArray) -> None:
        """Centre and preconditioner from z of shape (groups, steps, chains, d)."""
        groups, d = self.groups, seen.shape[3]
        flat = seen.reshape(groups, -1, d)
        middle = flat.mean(axis=1)
        away = flat - middle[:, None, :]
        worth = flat.shape[1] / 4  # draws that are not independent
        spread = (away.swapaxes(1, 2) @ away) / flat.shape[1]
        spread = (worth * spread + 2 * d * np.eye(d)) / (worth + 2 * d)
        new = np.linalg.cholesky(spread)
        self.centre = self.centre + (self.root @ middle[:, :, None])[:, :, 0]
        self.root = self.root @ new
        away_now = (self.z - middle[:, None, :]).swapaxes(1, 2)
        self.z = np.linalg.solve(new, away_now).swapaxes(1, 2)
        self.x, self.value, self.gradient = self._look(self.z)


def peak(target: Target) -> tuple[FloatArray, FloatArray]:
    """Where each group's smoothed density is highest, and a root of its inverse curvature there."""
    x = target.start()
    value, gradient = target.value(x, smooth=True)
    root = np.empty((*x.shape, x.shape[1]))
    for climb in range(CLIMBS + 1):
        root = _inverse_root(_curvature(target, x))
        if climb == CLIMBS:
            break
        way = (root @ (root.swapaxes(1, 2) @ gradient[:, :, None]))[:, :, 0]
        longest = np.abs(way).max(axis=1)
        way = way * np.minimum(1.0, 2.0 / np.maximum(longest, 1e-300))[:, None]
        best_x, best, best_gradient = x, value, gradient
        for size in (1.0, 0.5, 0.2, 0.05, 0.01):
            at = x + size * way
            found, slope = target.value(at, smooth=True)
            good = np.isfinite(found) & np.isfinite(slope).all(axis=1) & (found > best)
            best_x = np.where(good[:, None], at, best_x)
            best_gradient = np.where(good[:, None], slope, best_gradient)
            best = np.where(good, found, best)
            if np.all(best > value):
                break
        gain = best - value
        x, value, gradient = best_x, best, best_gradient
        if np.all(gain < 1e-3):
            root = _inverse_root(_curvature(target, x))
            break
    return x, root


def _curvature(target: Target, x: FloatArray) -> FloatArray:
    """Minus the second derivatives, (groups, d, d): the noise's by Gauss and Newton."""
    groups, d = x.shape
    shift = NUDGE * np.eye(d)
    moved = np.concatenate([x[:, None, :] + shift, x[:, None, :] - shift], axis=1)
    wide = target.take(np.repeat(np.arange(groups), 2 * d))
    flat = moved.reshape(-1, d)
    expected = wide.expected(flat).reshape(groups, 2, d, -1)
    jacobian = (expected[:, 0] - expected[:, 1]) / (2 * NUDGE)  # (groups, d, statistics)
    slopes = wide.model_gradient(flat).reshape(groups, 2, d, d)
    model = -(slopes[:, 0] - slopes[:, 1]) / (2 * NUDGE)
    noise = (jacobian / target.variance[:, None, :]) @ jacobian.swapaxes(1, 2)
    return np.nan_to_num(noise) + np.nan_to_num((model + model.swapaxes(1, 2)) / 2)


def _inverse_root(curvature: FloatArray) -> FloatArray:
    """A root of the inverse; directions that bend the wrong way, or hardly, count as width 2."""
    scale = np.sqrt(np.maximum(np.einsum("bii->bi", np.abs(curvature)), 1e-12))
    values, vectors = np.linalg.eigh(curvature / scale[:, :, None] / scale[:, None, :])
    values = np.maximum(np.abs(values), 1e-9)
    root = vectors / np.sqrt(values)[:, None, :] / scale[:, :, None]
    # no step is longer than the coordinates' own scale
    size = np.sqrt((root**2).sum(axis=1, keepdims=True))
    return np.asarray(root * np.minimum(1.0, 2.0 / size))
