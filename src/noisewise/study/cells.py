"""What a study runs: every combination of n, epsilon and method, checked before anything starts; and its tables."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from noisewise.errors import NoisewiseError, UnsupportedCombination
from noisewise.inference.problem import check_prior
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.priors import Prior
from noisewise.study.trials import METHODS, Setting, draws, simulate


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting under one method."""

    setting: Setting
    method: str

    @property
    def key(self) -> str:
        """Names this cell among all others."""
        return f"{self.setting.describe()} {self.method}"


Report = Callable[[Cell, FloatArray], None]
"""Told of every chunk that is done: its cell, and all figures of the cell so far."""


def grid(
    family: Family, prior: Prior, n: Sequence[int], epsilon: Sequence[float], bounds: Bounds | None, methods: Sequence[str],
    trials: int,
) -> list[Cell]:  # fmt: skip
    """Every combination, refused before anything runs if it makes no sense."""
    check_prior(family, prior)
    if trials < 1:
        raise NoisewiseError(f"a study needs at least one trial, got {trials}.")
    if not n or not epsilon or not methods:
        raise NoisewiseError("a study needs at least one n, one epsilon and one method.")
    for size in n:
        if size < 1:
            raise NoisewiseError(f"n must be at least 1, got {size}.")
    for e in epsilon:
        if not (np.isfinite(e) and e > 0):
            raise NoisewiseError(f"epsilon must be positive and finite, got {e:g}.")
    for method in methods:
        if method not in METHODS:
            raise UnsupportedCombination(f"unknown method {method!r}; use {', '.join(METHODS)}.")
    cells = [Cell(Setting(family, prior, bounds, size, e), method) for size in n for e in epsilon for method in methods]
    for method in methods:  # one trial of each: what does not serve says so now
        tried = next(cell for cell in cells if cell.method == method)
        sample = simulate(tried.setting, 2, np.random.default_rng(0))
        draws(tried.setting, sample, method, 2, np.random.default_rng(0)) if method not in ("gibbs", "gibbs-paper") else None
    return cells


def about(cell: Cell) -> dict[str, Any]:
    """The columns that name a cell in a table."""
    setting = cell.setting
    bounds = setting.bounds
    return {
        "family": setting.family.kind,
        "prior": str(setting.prior),
        "lower": None if bounds is None else bounds.lower,
        "upper": None if bounds is None else bounds.upper,
        "outside": None if bounds is None else bounds.outside,
        "n": setting.n,
        "epsilon": setting.epsilon,
        "method": cell.method,
    }


@contextmanager
def place(folder: Path | str | None) -> Iterator[Path]:
    """The folder given, or one that is gone afterwards."""
    if folder is not None:
        yield Path(folder)
        return
    with TemporaryDirectory() as own:
        yield Path(own)


def write_table(rows: Sequence[dict[str, Any]], stem: Path) -> None:
    """The rows as CSV and as JSON."""
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    stem.with_suffix(".json").write_text(json.dumps(list(rows), indent=2) + "\n")
