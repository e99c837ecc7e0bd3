"""Coordinates of the moments of several columns that never leave the set of possible ones.

A record is z = (z_1, ..., z_K). Per record of N, the moments are the means m and the covariance C =
M M', M lower triangular. A number's mean is 2 Phi(a) - 1, its sd sqrt(1 - m^2) Phi(t), and its row
of M is sd (b, 1)/sqrt(1 + |b|^2), b being the sinh of free numbers: so mean and square stay within
the box, and a and t are standard normal where nothing is known. A factor's shares are a softmax,
and its own block of C, diag m - m m', is known from them: its rows are R T^-1 (B, I), with R the
Cholesky factor of that block, T that of I + B B', and B as b.

Coefficients of an outcome have a prior of their own width: b_j of its row is then s_j sinh of a
free number, s_j being what that width comes to, given how much z_j varies. Without it, b_j is the
narrower the less z_j varies, and where noise hides that, no step size serves.

Of a covariate that others nearly determine, all of this is said of what they leave of it: M = L M',
with M' in these coordinates and L, ones on its diagonal, from the noisy moments (`lean`). Otherwise
every b_j moves with the little that is left, along a ridge as narrow and curved as the noise is
small, which no chain can follow.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from noisewise.inference.columns import matrices
from noisewise.inference.columns.matrices import times
from noisewise.model.arrays import FloatArray

WIDEST = 1 - 1e-9
"""An sd that is no further from the box's half width has coordinates."""


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


@dataclass(frozen=True, slots=True)
class Moments:
    """Of a batch: means, the factor of the covariance, and the log density that belongs to the
    coordinates themselves.
    """

    mean: FloatArray  # (batch, K)
    root: FloatArray  # (batch, K, K)
    value: FloatArray  # (batch,)
    held: tuple[FloatArray, ...]
    """What the numeric columns keep for the way back."""
    factors: list[tuple[FloatArray, ...]]
    """What each factor keeps."""
    lean: FloatArray | None  # (batch, K, K)


class Cone:
    """The columns in order: factors come first, then numbers, and responses last.

    `widths` are the prior sds of the coefficients of the last column on all numbers before it.
    """

    def __init__(self, blocks: tuple[Block, ...], widths: FloatArray | None = None) -> None:
        self.blocks, self.widths = blocks, widths
        self.factors = [block for block in blocks if block.factor]
        numeric = [block for block in blocks if not block.factor]
        self.numbers = sum(block.size for block in blocks)
        self._first = self.numbers - len(numeric)
        starts = np.array([block.start for block in numeric], dtype=np.int64)
        self._row = np.repeat(np.arange(len(numeric)), starts)
        self._column = np.concatenate([np.arange(c) for c in starts] or [starts])
        self._weights = np.array([_weights(block) for block in numeric]).reshape(-1, 3).T
        self._of_sd = np.array(
            [0.0 if block.response else block.start + 1.0 + block.later for block in numeric]
        )
        self._of_factors = sum(block.size * (1 + block.start) for block in self.factors)
        self.dimension = self._of_factors + 2 * len(numeric) + len(self._row)
        # the row of a response to its covariances, by the root of what comes before
        before = np.array([block.start for block in blocks if block.response])
        self._responses = (before > np.arange(self.numbers)[:, None]).sum(axis=1).astype(float)

    @classmethod
    def of(
        cls, columns: "list[tuple[int, bool, bool]]", widths: FloatArray | None = None
    ) -> "Cone":
        """From (how many numbers, whether a factor, whether a response) of each column."""
        total = sum(size for size, _, response in columns if not response)
        blocks, start = [], 0
        for size, factor, response in columns:
            later = 0 if response else total - start - size
            blocks.append(Block(start, size, factor, response, later))
            start += size
        return cls(tuple(blocks), widths)

    def at(self, x: FloatArray, few: FloatArray, lean: FloatArray | None) -> Moments:
        """The moments at coordinates x, (batch, dimension). `few` is about 1/N, (batch,): what is
        left of a width where a column hardly varies. `lean` is L, (batch, K, K), in whose rows of
        factors and responses nothing stands beside the diagonal; None where no column leans.
        """
        batch, place, order = len(x), 0, matrices.order(self.numbers)
        mean = np.empty((batch, self.numbers), order=order)
        root = np.zeros((batch, self.numbers, self.numbers), order=order)
        value, factors = np.zeros(batch), []
        for block in self.factors:
            many, end = block.size * (1 + block.start), block.start + block.size
            m, rows, log, kept = _factor(block, x[:, place : place + many])
            place += many
            mean[:, block.start : end] = m
            root[:, block.start : end, :end] = rows
            value += log
            factors.append(kept)
        held: tuple[FloatArray, ...] = ()
        if self._first < self.numbers:
            log, held = self._numbers(x[:, place:], few, mean, root)
            value += log
            if lean is not None:
                root = times(lean, root)
                value += self._leaning(root, held)
        k = np.arange(self.numbers)
        value += np.log(root[:, k, k]) @ self._responses
        return Moments(mean, root, value, held, factors, lean)

    def _leaning(self, root: FloatArray, held: tuple[FloatArray, ...]) -> FloatArray:
        """What the density of a covariate has of its own sd and not of what others leave of it;
        -inf where it would leave the box.
        """
        rest, sd = held[3], held[5]
        square = (root[:, self._first :] ** 2).sum(axis=2)
        inside = ((square < rest) | (self._of_sd == 0)).all(axis=1)
        value = (np.log(sd) - 0.5 * np.log(square)) @ self._of_sd
        return np.where(inside, value, -np.inf)

    def _numbers(
        self, x: FloatArray, few: FloatArray, mean: FloatArray, root: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        """The rows of numeric columns, into `mean` and `root`; their log density, and what the way
        back needs.
        """
        first, q = self._first, self.numbers - self._first
        a, t, free = x[:, :q], x[:, q : 2 * q], x[:, 2 * q :]
        above, below, part = special.ndtr(a), special.ndtr(-a), special.ndtr(t)
        rest = 4 * above * below  # 1 - m^2
        log_rest, log_part = np.log(rest), np.log(part)
        sd = np.sqrt(rest) * part
        sinh = np.sinh(free)
        wide = np.zeros((len(x), q, self.numbers), order=matrices.order(self.numbers))
        wide[:, self._row, self._column] = sinh
        wide[:, np.arange(q), np.arange(first, self.numbers)] = 1.0
        tau = np.sqrt(np.einsum("bij,bij->bi", wide, wide))
        width, grows = np.ones((len(x), 1)), np.zeros((len(x), 1))
        value = 0.5 * np.log1p(sinh**2).sum(axis=1)
        if self.widths is not None:
            before = np.concatenate(
                [np.einsum("bii->bi", root[:, :first, :first]), sd[:, :-1] / tau[:, :-1]], axis=1
            )
            width, grows = _relative(self.widths, before, sd[:, -1:], few[:, None])
            wide[:, -1, :-1] *= width
            tau[:, -1] = np.sqrt(1 + (wide[:, -1, :-1] ** 2).sum(axis=1))
            value += np.log(width).sum(axis=1)
        direction = wide / tau[:, :, None]
        mean[:, first:] = above - below
        root[:, first:] = sd[:, :, None] * direction
        of_rest, of_part, of_tau = self._weights
        value += log_rest @ of_rest + log_part @ of_part + 2 * (np.log(tau) @ of_tau)
        value -= 0.5 * (a**2 + t**2).sum(axis=1)
        held = (a, t, mean[:, first:], rest, part, sd, tau, direction, sinh)
        return value, (*held, width, grows)

    def back(self, moments: Moments, to_mean: FloatArray, to_root: FloatArray) -> FloatArray:
        """The gradient in x of the coordinates' own value and of what has these gradients; what
        stands above the diagonal of `to_root` means nothing.
        """
        k = np.arange(self.numbers)
        to_root = to_root.copy(order="K")
        to_root[:, k, k] += self._responses / moments.root[:, k, k]
        last = []
        if self._first < self.numbers:
            if moments.lean is not None:
                own = moments.root[:, self._first :]
                square = np.einsum("bij,bij->bi", own, own)
                to_root[:, self._first :] -= (self._of_sd / square)[:, :, None] * own
                to_root = times(moments.lean.swapaxes(1, 2), to_root)
            last.append(self._numbers_back(moments, to_mean[:, self._first :], to_root))
        parts = []
        for block, kept in zip(self.factors, moments.factors, strict=True):
            rows, end = slice(block.start, block.start + block.size), block.start + block.size
            parts.append(_factor_back(block, kept, to_mean[:, rows], to_root[:, rows, :end]))
        return np.concatenate([*parts, *last], axis=1)

    def _numbers_back(
        self, moments: Moments, to_mean: FloatArray, to_root: FloatArray
    ) -> FloatArray:
        """Adds to `to_root` what the widths of the last row have of the rows before."""
        a, t, mean, rest, part, sd, tau, direction, sinh, width, grows = moments.held
        of_rest, of_part, of_tau = self._weights
        rows = to_root[:, self._first :]

        def turned(i: slice) -> tuple[FloatArray, FloatArray]:
            """Gradients in log sd and in b of rows i."""
            along = np.einsum("bij,bij->bi", rows[:, i], direction[:, i])[:, :, None]
            to_b = sd[:, i, None] * (rows[:, i] - along * direction[:, i])
            to_b += 2 * of_tau[i, None] * direction[:, i]
            return sd[:, i] * along[:, :, 0], to_b / tau[:, i, None]

        stretch = np.zeros((len(sd), 1))
        if self.widths is not None:
            to_b = turned(slice(-1, None))[1][:, 0, :-1]
            stretch = (to_b * direction[:, -1, :-1] * tau[:, -1:] + 1) * grows
            k = np.arange(self.numbers - 1)
            to_root[:, k, k] += stretch / moments.root[:, k, k]
        to_log_sd, to_b = turned(slice(None))
        if moments.lean is not None:
            to_log_sd += self._of_sd
        to_log_sd[:, -1] -= stretch.sum(axis=1)
        to_b[:, -1, :-1] *= width
        normal_a, normal_t = (np.exp(-0.5 * one**2) / np.sqrt(2 * np.pi) for one in (a, t))
        to_a = 2 * normal_a * (to_mean - (2 * of_rest + to_log_sd) * mean / rest) - a
        to_t = normal_t * (of_part + to_log_sd) / part - t
        cosh = np.sqrt(1 + sinh**2)
        to_free = to_b[:, self._row, self._column] * cosh + sinh / cosh
        return np.concatenate([to_a, to_t, to_free], axis=1)

    def coordinates(
        self, mean: FloatArray, covariance: FloatArray, few: FloatArray, lean: FloatArray
    ) -> FloatArray:
        """x of moments inside the box and the cone, (batch, K) and (batch, K, K), or near them if
        they lean further than the box is wide; a factor's own block is taken from its shares.
        """
        root = matrices.lower_inverse(lean) @ np.linalg.cholesky(covariance)
        parts = []
        for block in self.factors:
            c, rows = block.start, slice(block.start, block.start + block.size)
            share = mean[:, rows]
            first = np.log(np.maximum(1 - share.sum(axis=1, keepdims=True), 1e-12))
            own = root[:, rows, rows]
            free = np.linalg.solve(own, root[:, rows, :c]) if c else root[:, rows, :0]
            parts += [np.log(share) - first, np.arcsinh(free).reshape(len(mean), -1)]
        m, rows_of = mean[:, self._first :], root[:, self._first :]
        t = special.ndtri(np.minimum(np.sqrt((rows_of**2).sum(axis=2) / (1 - m**2)), WIDEST))
        diagonal = np.einsum("bii->bi", root)
        b = rows_of / diagonal[:, self._first :, None]
        if self.widths is not None:
            sd = np.sqrt((rows_of[:, -1:] ** 2).sum(axis=2))
            b[:, -1, :-1] /= _relative(self.widths, diagonal[:, :-1], sd, few[:, None])[0]
        parts += [special.ndtri((1 + m) / 2), t, np.arcsinh(b[:, self._row, self._column])]
        return np.concatenate(parts, axis=1)


def _relative(
    widths: FloatArray, spread: FloatArray, sd: FloatArray, few: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """s with s^2 = q^2/(1 + q^2), q^2 = (width spread/sd)^2 + few, and d log s/d log spread, which
    is that of sd but for its sign.
    """
    own = (widths * spread / sd) ** 2
    square = own + few
    return np.sqrt(square / (1 + square)), own / (square * (1 + square))


def _weights(block: Block) -> tuple[float, float, float]:
    """What a number's log density has of log(1 - m^2), log Phi(t) and log(1 + |b|^2), beside that
    of standard normal a and t.
    """
    c = block.start
    if block.response:  # d(sd^2)/dPhi, sd^c, and b to the direction of the row
        return 1 + c / 2, 1.0 + c, -(c + 2) / 2
    # m uniform, sd uniform given m, correlations uniform
    return 0.0, 0.0, -(c + 2 + block.later) / 2


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
    t = matrices.cholesky(np.eye(r) + times(b, b.swapaxes(1, 2)))
    wide = np.concatenate([b, np.broadcast_to(np.eye(r), (len(x), r, r))], axis=2)
    back = matrices.lower_inverse(t)
    turned = times(back, wide)
    value = value - (_exponents(block) * np.log(t[:, k, k])).sum(axis=1)
    value = value + 0.5 * np.log1p(b**2).sum(axis=(1, 2))
    return m, times(own, turned), value, (share, left, before, own, b, t, back, turned)


def _factor_back(
    block: Block, kept: tuple[FloatArray, ...], to_mean: FloatArray, to_rows: FloatArray
) -> FloatArray:
    c, k = block.start, np.arange(block.size)
    to_rows = np.concatenate([to_rows[:, :, :c], np.tril(to_rows[:, :, c:])], axis=2)
    share, left, before, own = kept[:4]
    to_own, parts = to_rows, []
    if c:
        b, t, back, turned = kept[4:]
        up_back = back.swapaxes(1, 2)
        to_own = times(to_rows, turned.swapaxes(1, 2))
        up = times(up_back, times(own.swapaxes(1, 2), to_rows))  # to (B, I)
        to_t = -np.tril(times(up, turned.swapaxes(1, 2)))
        to_t[:, k, k] -= _exponents(block) / t[:, k, k]
        inner = np.tril(times(t.swapaxes(1, 2), to_t))
        inner[:, k, k] /= 2
        to_square = times(times(up_back, inner), back)
        to_square = (to_square + to_square.swapaxes(1, 2)) / 2
        to_b = up[:, :, :c] + 2 * times(to_square, b)
        cosh = np.sqrt(1 + b**2)
        to_b = to_b * cosh + b / cosh
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
