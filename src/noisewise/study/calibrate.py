"""`calibrate` and `compare`: is a method right, and what does privacy cost?"""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
from noisewise.study import engine, mmd
from noisewise.study.trials import METHODS, Setting, draws, simulate, targets, uniforms
from noisewise.study.verdict import LEVELS, Verdict, judge

CHUNK = 500
"""Trials of a chunk; fixed, so that results do not depend on the number of workers."""
COMPARED = 20
DRAWS = 2000
Report = Callable[["Cell", FloatArray], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting under one method."""

    setting: Setting
    method: str

    @property
    def key(self) -> str:
        """Names this cell among all others."""
        return f"{self.setting.describe()} {self.method}"


@dataclass(frozen=True)
class Calibration:
    """What was found: U for each cell and target, and the verdicts as plain rows."""

    uniforms: dict[tuple[Cell, str], FloatArray]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each setting, method and target."""
        rows = []
        for (cell, target), u in self.uniforms.items():
            found = judge(u)
            rows.append(_about(cell) | {"target": target, "passes": found.passes, "verdict": found.words} | _flat(found))
        return rows


def calibrate(
    family: Family,
    prior: Prior,
    *,
    n: Sequence[int],
    epsilon: Sequence[float],
    bounds: Bounds | None = None,
    methods: Sequence[str] = ("auto",),
    trials: int = 4000,
    seed: int = 0,
    folder: Path | str | None = None,
    jobs: int = 1,
    dask: str | None = None,
    report: Report | None = None,
) -> Calibration:
    """Simulate trials of every n, epsilon and method, and place the truth in its posterior. With a folder, it can be resumed."""
    cells = grid(family, prior, n, epsilon, bounds, methods, trials)
    return run_cells(cells, trials, seed, folder, jobs, dask, report)


def run_cells(
    cells: Sequence[Cell],
    trials: int,
    seed: int,
    folder: Path | str | None,
    jobs: int,
    dask: str | None,
    report: Report | None,
    chunk: int = CHUNK,
) -> Calibration:
    """The same for any list of cells."""
    chunks, owner = [], {}
    for cell in cells:
        for start in range(0, trials, chunk):
            size = min(chunk, trials - start)
            made = engine.Chunk(f"{cell.key} trials {start} {size}", _uniforms, (cell.setting, size, cell.method), size)
            chunks.append(made)
            owner[made.key] = cell
    done: dict[Cell, list[dict[str, list[float]]]] = {cell: [] for cell in cells}

    def arrived(made: engine.Chunk, result: engine.Result) -> None:
        cell = owner[made.key]
        done[cell].append(result)
        if report is not None:
            first = targets(cell.setting.family)[0]
            report(cell, np.concatenate([part[first] for part in done[cell]]))

    content = {"study": "calibrate", "cells": [cell.key for cell in cells], "trials": trials, "seed": seed}
    with _folder(folder) as place:
        engine.claim(place, content)
        found = engine.run(chunks, place, seed, jobs, dask, arrived)
    out: dict[tuple[Cell, str], FloatArray] = {}
    for cell in cells:
        parts = [found[made.key] for made in chunks if owner[made.key] is cell]
        for target in targets(cell.setting.family):
            out[cell, target] = np.concatenate([part[target] for part in parts])
    return Calibration(out)


def _uniforms(setting: Setting, trials: int, method: str, rng: np.random.Generator) -> dict[str, FloatArray]:
    return uniforms(setting, trials, rng, method)


@dataclass(frozen=True)
class Comparison:
    """Per cell and target the utility of every trial: MMD^2, interval width and error against the non-private posterior."""

    figures: dict[Cell, dict[str, FloatArray]]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each setting and method: means over trials with their Monte Carlo standard errors."""
        rows = []
        for cell, found in self.figures.items():
            row = _about(cell) | {"trials": len(found["mmd2"])}
            for name, values in found.items():
                row |= {name: float(values.mean()), f"{name}_mcse": float(values.std(ddof=1) / np.sqrt(values.size))}
            rows.append(row)
        return rows


def compare(
    family: Family,
    prior: Prior,
    *,
    n: Sequence[int],
    epsilon: Sequence[float],
    bounds: Bounds | None = None,
    methods: Sequence[str] = ("auto", "naive"),
    trials: int = 200,
    seed: int = 0,
    folder: Path | str | None = None,
    jobs: int = 1,
    dask: str | None = None,
    report: Report | None = None,
    size: int = DRAWS,
) -> Comparison:
    """How far each method's posterior lies from the non-private one of the same records."""
    cells = grid(family, prior, n, epsilon, bounds, methods, trials)
    return compare_cells(cells, trials, seed, folder, jobs, dask, report, size)


def compare_cells(
    cells: Sequence[Cell], trials: int, seed: int, folder: Path | str | None, jobs: int, dask: str | None,
    report: Report | None, size: int = DRAWS, chunk: int = COMPARED,
) -> Comparison:  # fmt: skip
    """The same for any list of cells."""
    if trials < 2:
        raise NoisewiseError("a comparison needs at least 2 trials: its errors are estimated from their spread.")
    chunks, owner = [], {}
    for cell in cells:
        for start in range(0, trials, chunk):
            count = min(chunk, trials - start)
            arguments = (cell.setting, count, cell.method, size)
            made = engine.Chunk(f"compare {cell.key} trials {start} {count} draws {size}", _utility, arguments, count)
            chunks.append(made)
            owner[made.key] = cell
    done: dict[Cell, list[list[float]]] = {cell: [] for cell in cells}

    def arrived(made: engine.Chunk, result: engine.Result) -> None:
        cell = owner[made.key]
        done[cell].append(result["mmd2"])
        if report is not None:
            report(cell, np.concatenate(done[cell]))

    content = {"study": "compare", "cells": [cell.key for cell in cells], "trials": trials, "draws": size, "seed": seed}
    with _folder(folder) as place:
        engine.claim(place, content)
        found = engine.run(chunks, place, seed, jobs, dask, arrived)
    out = {}
    for cell in cells:
        parts = [found[made.key] for made in chunks if owner[made.key] is cell]
        out[cell] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Comparison(out)


def _utility(setting: Setting, trials: int, method: str, size: int, rng: np.random.Generator) -> dict[str, FloatArray]:
    """For each trial: MMD^2 over all of theta; of the first target the 90 % width and the absolute error, relative."""
    sample = simulate(setting, trials, rng)
    private, public = draws(setting, sample, method, size, rng), draws(setting, sample, "non-private", size, rng)
    width = [np.diff(np.quantile(made[:, :, 0], [0.05, 0.95], axis=1), axis=0)[0] for made in (private, public)]
    error = [np.abs(made[:, :, 0].mean(axis=1) - sample.theta[:, 0]) for made in (private, public)]
    return {
        "mmd2": np.array([mmd.squared(p, q) for p, q in zip(private, public, strict=True)]),
        "width_ratio": width[0] / width[1],
        "error": error[0],
        "error_non_private": error[1],
    }


def grid(
    family: Family, prior: Prior, n: Sequence[int], epsilon: Sequence[float], bounds: Bounds | None, methods: Sequence[str], trials: int
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


def _about(cell: Cell) -> dict[str, Any]:
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


def _flat(found: Verdict) -> dict[str, Any]:
    row = asdict(found)
    coverage, low, high = (row.pop(name) for name in ("coverage", "coverage_low", "coverage_high"))
    for j, level in enumerate(LEVELS):
        row |= {f"coverage_{level:.0%}": coverage[j], f"coverage_{level:.0%}_low": low[j], f"coverage_{level:.0%}_high": high[j]}
    return row


class _folder:
    """The folder given, or one that is gone afterwards."""

    def __init__(self, folder: Path | str | None) -> None:
        self._own = TemporaryDirectory() if folder is None else None
        self._path = Path(folder) if folder is not None else None

    def __enter__(self) -> Path:
        return self._path if self._path is not None else Path(self._own.name)  # type: ignore[union-attr]

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.cleanup()


def write_table(rows: Sequence[dict[str, Any]], stem: Path) -> None:
    """The rows as CSV and as JSON."""
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    stem.with_suffix(".json").write_text(json.dumps(list(rows), indent=2) + "\n")
