"""Adaptive one-dimensional grids of a log density, many groups at once.

The points of all groups lie in one flat array, ordered by group and position; `start` says where
each group begins. A round splits the cells that matter and are not yet straight enough; nothing is
ever sorted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import FloatArray, IntArray

Function = Callable[[FloatArray, IntArray], FloatArray]
"""(positions, groups), both flat -> log density, up to a constant of each group."""

DROP = 36.0
"""e^-36 of the peak is below rounding."""
STRAIGHT = 0.1
"""How far the log density may bend within a cell at the peak."""
ROUNDS = 60
"""Of splitting cells: a float has no more halves."""
MOST = 3000
"""A group with more points than this is not refined further."""
LOWEST = -1e280
"""In place of log 0: differences of it are still finite."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Points psi with the log density there."""

    psi: FloatArray  # (points,)
    value: FloatArray  # (points,)
    start: IntArray  # (groups + 1,)

    @property
    def group(self) -> IntArray:
        """The group of each point."""
        return np.repeat(np.arange(self.start.size - 1), np.diff(self.start))

    @property
    def best(self) -> FloatArray:
        """The highest value of each group."""
        return np.asarray(np.maximum.reduceat(self.value, self.start[:-1]))

    def extent(self, drop: float) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest psi of each group at which the value is within `drop` of its best;
        never the same.
        """
        counts = self.value >= self.best[self.group] - drop
        low = np.minimum.reduceat(np.where(counts, self.psi, np.inf), self.start[:-1])
        high = np.maximum.reduceat(np.where(counts, self.psi, -np.inf), self.start[:-1])
        return low, np.maximum(high, low + 1e-12 * (1 + np.abs(low)))

    def narrowest(self, drop: float) -> FloatArray:
        """The width of each group's narrowest cell with an end within `drop` of the best value."""
        width = np.append(np.diff(self.psi), np.inf)
        width[self.start[1:] - 1] = np.inf
        counts = self.value >= self.best[self.group] - drop
        return np.asarray(np.minimum.reduceat(np.where(counts, width, np.inf), self.start[:-1]))

    def rows(self, group: int) -> slice:
        """Where one group's points are."""
        return slice(int(self.start[group]), int(self.start[group + 1]))

    def replaced(self, groups: IntArray, other: "Grid") -> "Grid":
        """With those groups taken from another grid, one after the other."""
        theirs = dict(zip(groups.tolist(), range(groups.size), strict=True))
        parts = [
            (other, theirs[g]) if g in theirs else (self, g) for g in range(self.start.size - 1)
        ]
        psi, value = (
            [getattr(grid, name)[grid.rows(g)] for grid, g in parts] for name in ("psi", "value")
        )
        return Grid(
            np.concatenate(psi),
            np.concatenate(value),
            np.concatenate([[0], np.cumsum([p.size for p in psi])]),
        )


def begin(function: Function, psi: Sequence[FloatArray] | FloatArray) -> Grid:
    """The function at the points of each group, increasing."""
    sizes = [len(own) for own in psi]
    flat = np.concatenate(psi)
    return Grid(
        flat,
        _finite(function(flat, np.repeat(np.arange(len(psi)), sizes))),
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def refine(
    function: Function, grid: Grid, straight: float = STRAIGHT, most: int = MOST, drop: float = DROP
) -> Grid:
    """Split cells until the density is resolved, then leave out what lies far below its peak."""
    for _ in range(ROUNDS):
        cells, parts = _unresolved(grid, straight, most, drop)
        if cells.size == 0:
            break
        grid = _split(function, grid, cells, parts)
    return _trim(grid)


def _finite(value: FloatArray) -> FloatArray:
    return np.where(np.isfinite(value), value, LOWEST)


def _unresolved(grid: Grid, straight: float, most: int, drop: float) -> tuple[IntArray, IntArray]:
    """The cells to split, each by its left point, and into how many parts."""
    psi, value = grid.psi, grid.value
    width = np.diff(psi)
    last = grid.start[1:-1] - 1  # cells between two groups are none
    width[last] = np.inf
    slope = np.diff(value) / width
    before, after = np.empty_like(slope), np.empty_like(slope)
    before[1:], after[:-1] = slope[:-1], slope[1:]
    first_cells, last_cells = grid.start[:-1], grid.start[1:] - 2
    before[first_cells], after[last_cells] = slope[first_cells], slope[last_cells]
    width[last] = 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # A concave function lies below the two neighbouring chords; where they meet is as high as
        # it can be in the cell.
        meet = (np.diff(value) - after * width) / (before - after)
        reach = value[:-1] + before * np.clip(meet, 0.0, width)
        ends = np.maximum(value[:-1], value[1:])
        highest = np.where((before > after) & np.isfinite(reach), np.maximum(reach, ends), ends)
        bend = np.maximum(np.abs(before - slope), np.abs(slope - after)) * width
        counts = np.diff(grid.start)
        below = np.repeat(np.where(counts > most, np.inf, grid.best), counts)[:-1] - highest
        rounding = 64 * np.finfo(float).eps * np.maximum(np.abs(value[:-1]), np.abs(value[1:]))
        allowed = straight * np.exp(np.clip(below, 0.0, drop) / 4) + rounding
        split = (
            (below < drop)
            & (bend > allowed)
            & (width > 4e-15 * np.maximum(np.abs(psi[:-1]), np.abs(psi[1:])))
        )
        parts = np.clip(np.ceil(np.sqrt(bend / allowed)), 2, 12)
    cells = np.flatnonzero(split)
    return cells, parts[cells].astype(np.int64)


def _split(function: Function, grid: Grid, cells: IntArray, parts: IntArray) -> Grid:
    new = parts - 1
    left = np.repeat(cells, new)
    nth = np.arange(left.size) - np.repeat(np.cumsum(new) - new, new) + 1
    psi = grid.psi[left] + (grid.psi[left + 1] - grid.psi[left]) * (nth / np.repeat(parts, new))
    group = np.searchsorted(grid.start, left, side="right") - 1
    value = _finite(function(psi, group))
    added = np.bincount(group, minlength=grid.start.size - 1)
    start = grid.start + np.concatenate([[0], np.cumsum(added)])
    return Grid(np.insert(grid.psi, left + 1, psi), np.insert(grid.value, left + 1, value), start)


def _trim(grid: Grid) -> Grid:
    """Leave out points far below the peak, but for the one next to those that count on
    either side.
    """
    group = grid.group
    counts = grid.value >= grid.best[group] - DROP
    keep = counts.copy()
    same = group[1:] == group[:-1]
    keep[1:] |= counts[:-1] & same
    keep[:-1] |= counts[1:] & same
    lengths = np.bincount(group[keep], minlength=grid.start.size - 1)
    return Grid(grid.psi[keep], grid.value[keep], np.concatenate([[0], np.cumsum(lengths)]))
