"""Coordinates of the moments of several columns that never leave the set of possible ones.

A record is z = (z_1, ..., z_K). Per record of N, the moments are the means m and the covariance C =
M M', M lower triangular. A number's mean is tanh a, its sd sqrt(1 - m^2) sqrt(logistic t), and its
row of M is sd (b, 1)/sqrt(1 + |b|^2), b being the sinh of free numbers: so mean and square stay
within the box. A factor's shares are a softmax, and its own block of C, diag m - m m', is known
from them: its rows are R T^-1 (B, I), with R the Cholesky factor of that block, T that of I + B B',
and B as b.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.inference.columns import matrices
from noisewise.model.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Block:
    """One column: `size` rows of M after `start` others. A covariate's moments have a prior; a
    response's have a density in (m, C), and need the Jacobian.
    """

    start: int
    size: int
    factor: bool
    response: bool
    later: int
    """Numbers of covariates that come after it."""

    @property
    def coordinates(self) -> int:
        """How many there are."""
        return self.size * (1 + self.start) + (not self.factor)


@dataclass(frozen=True, slots=True)
class Moments:
    """Of a batch: means, the factor of the covariance, and the log density that belongs to the
    coordinates themselves.
    """

    mean: FloatArray  # (batch, K)
    root: FloatArray  # (batch, K, K)
    value: FloatArray  # (batch,)
    held: list[tuple[FloatArray, ...]]
    """What each block keeps for the way back."""


class Cone:
    """The columns in order: factors come first, then numbers, and a response last."""

    def __init__(self, blocks: tuple[Block, ...]) -> None:
        self.blocks = blocks
        self.numbers = sum(block.size for block in blocks)
        self.dimension = sum(block.coordinates for block in blocks)
        # the row of a response to its covariances, by the root of what comes before
        starts = np.array([block.start for block in blocks if block.response])
        self._responses = (starts > np.arange(self.numbers)[:, None]).sum(axis=1).astype(float)

    @classmethod
    def of(cls, columns: "list[tuple[int, bool, bool]]") -> "Cone":
        """From (how many numbers, whether a factor, whether a response) of each column."""
        total = sum(size for size, _, response in columns if not response)
        blocks, start = [], 0
        for size, factor, response in columns:
            later = 0 if response else total - start - size
            blocks.append(Block(start, size, factor, response, later))
            start += size
        return cls(tuple(blocks))

    def at(self, x: FloatArray) -> Moments:
        """The moments at coordinates x, (batch, dimension)."""
        batch, place = len(x), 0
        mean = np.empty((batch, self.numbers))
        root = np.zeros((batch, self.numbers, self.numbers))
        value, held = np.zeros(batch), []
        for block in self.blocks:
            own = x[:, place : place + block.coordinates]
            place += block.coordinates
            forward = _factor if block.factor else _number
            m, rows, log, kept = forward(block, own)
            end = block.start + block.size
            mean[:, block.start : end] = m
            root[:, block.start : end, :end] = rows
            value += log
            held.append(kept)
        k = np.arange(self.numbers)
        value += np.log(root[:, k, k]) @ self._responses
        return Moments(mean, root, value, held)

    def back(self, moments: Moments, to_mean: FloatArray, to_root: FloatArray) -> FloatArray:
        """The gradient in x of the coordinates' own value and of what has these gradients."""
        k = np.arange(self.numbers)
        to_root = to_root.copy()
        to_root[:, k, k] += self._responses / moments.root[:, k, k]
        parts = []
        for block, kept in zip(self.blocks, moments.held, strict=True):
            rows = slice(block.start, block.start + block.size)
            backward = _factor_back if block.factor else _number_back
            end = block.start + block.size
            parts.append(backward(block, kept, to_mean[:, rows], to_root[:, rows, :end]))
        return np.concatenate(parts, axis=1)

    def coordinates(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """x of moments inside the box and the cone, (batch, K) and (batch, K, K); a factor's own
        block is taken from its shares.
        """
        root = np.linalg.cholesky(covariance)
        parts = []
        for block in self.blocks:
            c, rows = block.start, slice(block.start, block.start + block.size)
            if block.factor:
                share = mean[:, rows]
                first = np.log(np.maximum(1 - share.sum(axis=1, keepdims=True), 1e-12))
                own = root[:, rows, rows]
                free = np.linalg.solve(own, root[:, rows, :c]) if c else root[:, rows, :0]
                parts += [np.log(share) - first, np.arcsinh(free).reshape(len(mean), -1)]
                continue
            m, row = mean[:, c], root[:, c, : c + 1]
            inside = (row**2).sum(axis=1) / (1 - m**2)
            t = np.log(inside) - np.log1p(-inside)
            parts += [np.arctanh(m)[:, None], t[:, None], np.arcsinh(row[:, :c] / row[:, c:])]
        return np.concatenate(parts, axis=1)


def _weights(block: Block) -> tuple[float, float, float, float]:
    """What a number's log density has of log(1 - m^2), log s, log(1 - s) and log(1 + |b|^2)."""
    c = block.start
    if block.response:  # dm/da, d(sd^2)/dt, sd^c, and b to the direction of the row
        return 2 + c / 2, 1 + c / 2, 1.0, -(c + 2) / 2
    # m uniform, sd uniform given m, correlations uniform
    return 1.0, 0.5, 1.0, -(c + 2 + block.later) / 2


def _number(
    block: Block, x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, tuple[FloatArray, ...]]:
    a, t, b = x[:, 0], x[:, 1], np.sinh(x[:, 2:])
    size = np.abs(a)
    log_rest = -2 * (size + np.log1p(np.exp(-2 * size)) - np.log(2))  # log(1 - m^2)
    log_s, log_not = -np.logaddexp(0, -t), -np.logaddexp(0, t)
    square = (b**2).sum(axis=1)
    tau = np.sqrt(1 + square)
    sd = np.exp((log_rest + log_s) / 2)
    direction = np.concatenate([b, np.ones((len(x), 1))], axis=1) / tau[:, None]
    weights = _weights(block)
    logs = (log_rest, log_s, log_not, np.log1p(square))
    value = sum(weight * log for weight, log in zip(weights, logs, strict=True))
    value = value + 0.5 * np.log1p(b**2).sum(axis=1)
    mean, s = np.tanh(a), np.exp(log_s)
    rows = (sd[:, None] * direction)[:, None, :]
    return (
        mean[:, None],
        rows,
        np.asarray(value),
        (mean, s, sd, tau, direction, np.exp(log_rest), b),
    )


def _number_back(
    block: Block, kept: tuple[FloatArray, ...], to_mean: FloatArray, to_rows: FloatArray
) -> FloatArray:
    mean, s, sd, tau, direction, rest, b = kept
    of_rest, of_s, of_not, of_tau = _weights(block)
    to_row, c = to_rows[:, 0], block.start
    along = (to_row * direction).sum(axis=1)
    to_log_sd = sd * along
    to_a = to_mean[:, 0] * rest - 2 * mean * (of_rest + to_log_sd / 2)
    to_t = (of_s + to_log_sd / 2) * (1 - s) - of_not * s
    to_b = (sd / tau)[:, None] * (to_row[:, :c] - along[:, None] * direction[:, :c])
    to_b += 2 * of_tau * direction[:, :c] / tau[:, None]
    to_b = _to_flat(to_b, b)
    return np.asarray(np.column_stack([to_a, to_t, to_b]), dtype=float)


def _to_flat(to_b: FloatArray, b: FloatArray) -> FloatArray:
    """The gradient in the coordinates of b, which is their sinh: without that its tails would be
    those of Student's t, in which no step size serves.
    """
    cosh = np.sqrt(1 + b**2)
    return np.asarray(to_b * cosh + b / cosh)


def _exponents(block: Block) -> FloatArray:
    """Of 1/t_ii, the diagonal of T: b to rows, and the later correlations."""
    i = np.arange(1, block.size + 1)
    return np.asarray(block.start + 2 + 2 * (block.size - i) + block.later, dtype=float)


def _factor(
    block: Block, x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, tuple[FloatArray, ...]]:
    r, c = block.size, block.start
    a = np.concatenate([np.zeros((len(x), 1)), x[:, :r]], axis=1)
    log_share = a - np.logaddexp.reduce(a, axis=1)[:, None]
    share = np.exp(log_share)
    m = share[:, 1:]
    # what is left after each level, the first level's share included: a sum of positive numbers
    left = np.cumsum(share[:, ::-1][:, :-1], axis=1)[:, ::-1][:, 1:]
    left = np.concatenate([left, np.zeros((len(x), 1))], axis=1) + share[:, :1]
    before = np.concatenate([np.ones((len(x), 1)), left[:, :-1]], axis=1)
    shape = -m[:, :, None] * np.sqrt(m / (left * before))[:, None, :]
    own = np.tril(shape, -1)
    k = np.arange(r)
    own[:, k, k] = np.sqrt(m * left / before)
    value = log_share.sum(axis=1)
    if c == 0:
        return m, own, value, (share, left, before, own)
    b = np.sinh(x[:, r:]).reshape(len(x), r, c)
    t = matrices.cholesky(np.eye(r) + b @ b.swapaxes(1, 2))
    wide = np.concatenate([b, np.broadcast_to(np.eye(r), (len(x), r, r))], axis=2)
    back = matrices.lower_inverse(t)
    turned = back @ wide
    value = value - (_exponents(block) * np.log(t[:, k, k])).sum(axis=1)
    value = value + 0.5 * np.log1p(b**2).sum(axis=(1, 2))
    return m, own @ turned, value, (share, left, before, own, b, t, back, turned)


def _factor_back(
    block: Block, kept: tuple[FloatArray, ...], to_mean: FloatArray, to_rows: FloatArray
) -> FloatArray:
    c, k = block.start, np.arange(block.size)
    share, left, before, own = kept[:4]
    to_own, parts = to_rows, []
    if c:
        b, t, back, turned = kept[4:]
        up_back = back.swapaxes(1, 2)
        to_own = to_rows @ turned.swapaxes(1, 2)
        up = up_back @ (own.swapaxes(1, 2) @ to_rows)  # to (B, I)
        to_t = -np.tril(up @ turned.swapaxes(1, 2))
        to_t[:, k, k] -= _exponents(block) / t[:, k, k]
        inner = np.tril(t.swapaxes(1, 2) @ to_t)
        inner[:, k, k] /= 2
        to_square = up_back @ inner @ back
        to_square = (to_square + to_square.swapaxes(1, 2)) / 2
        to_b = _to_flat(up[:, :, :c] + 2 * to_square @ b, b)
        parts = [to_b.reshape(len(share), -1)]
    logs = np.tril(to_own) * own  # to the logarithm of each entry
    diagonal = logs[:, k, k]
    below = logs.copy()
    below[:, k, k] = 0.0
    columns = below.sum(axis=1)
    to_log = np.ones_like(share)  # the softmax' own Jacobian
    to_log[:, 1:] += to_mean * share[:, 1:] + below.sum(axis=2) + (columns + diagonal) / 2
    to_left = (diagonal - columns) / 2 / left
    to_before = -(columns + diagonal) / 2 / before
    to_left[:, :-1] += to_before[:, 1:]  # before the first level all is left
    # left_i holds the first level and those after i
    after = np.concatenate([np.zeros((len(share), 1)), np.cumsum(to_left, axis=1)[:, :-1]], axis=1)
    to_log[:, 0] += share[:, 0] * to_left.sum(axis=1)
    to_log[:, 1:] += share[:, 1:] * after
    to_a = to_log - share * to_log.sum(axis=1)[:, None]
    return np.concatenate([to_a[:, 1:], *parts], axis=1)
