"""What a study runs: every combination of n, epsilon and method, checked before anything starts;
and its tables.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from noisewise.errors import NoisewiseError, UnsupportedCombination
from noisewise.files import write_whole
from noisewise.inference.infer import infer_many
from noisewise.inference.problem import check_prior
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.priors import Prior
from noisewise.study.trials import DENSITIES, METHODS, Setting, simulate, stream

MOST = 10**7
"""Records of a trial that are simulated one by one."""


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
    family: Family,
    prior: Prior,
    n: Sequence[int],
    epsilon: Sequence[float],
    bounds: Bounds | None,
    methods: Sequence[str],
    trials: int,
) -> list[Cell]:
    """Every combination, refused before anything runs if it makes no sense."""
    check_prior(family, prior)
    check(trials, 1, "a study needs at least one trial")
    if not (len(n) and len(epsilon) and len(methods)):
        raise NoisewiseError("a study needs at least one n, one epsilon and one method.")
    for size in n:
        check(size, 1, "n must be at least 1")
        if size > MOST and not family.bounded:
            raise NoisewiseError(
                f"a trial of {size} records takes too long to simulate; n may be "
                f"up to {MOST} for this family."
            )
    for e in epsilon:
        if not (np.isfinite(e) and e > 1e-100):
            raise NoisewiseError(f"epsilon must be positive and finite, got {e:g}.")
    for method in methods:
        if method not in METHODS:
            raise UnsupportedCombination(f"unknown method {method!r}; use {', '.join(METHODS)}.")
    made = [
        Cell(Setting(family, prior, bounds, int(size), float(e)), method)
        for size in n
        for e in epsilon
        for method in methods
    ]
    cells = list(dict.fromkeys(made))
    small = replace(cells[0].setting, n=min(map(int, n)))
    sample = simulate(small, 2, np.random.default_rng(0))
    for method in methods:  # what does not serve says so before anything runs
        if method in DENSITIES and family.statistic_kind != "counts":
            infer_many(sample.releases[:1], prior, method=method)
        else:
            stream(small, sample, method, np.random.default_rng(0))
    return cells


def check(value: int, least: int, words: str) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise NoisewiseError(f"{words}, got {value}.")


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
    text = json.dumps(list(rows), indent=2) + "\n"
    write_whole(stem.with_suffix(".json"), text.encode(), replace=True)
