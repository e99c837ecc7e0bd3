"""`compare`: what does privacy cost? Every method's posterior against the non-private one of the
same records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.priors import Prior
from noisewise.study import engine, mmd
from noisewise.study.baselines import OPS_DRAWS
from noisewise.study.cells import Cell, Report, about, check, grid, place
from noisewise.study.trials import Setting, draws, simulate

CHUNK, HELD = 100, 1 << 21
"""Trials of a chunk, fewer where their draws would be more numbers than that; never a matter of the
number of workers.
"""
DRAWS = 2000
"""Of each posterior, among which distances are measured."""
FIGURES = ("mmd2", "width_ratio", "error", "error_non_private")
"""The columns of a comparison that are averaged over trials."""


@dataclass(frozen=True)
class Comparison:
    """Per cell and target the utility of every trial: MMD^2, interval width and error against the
    non-private posterior.
    """

    figures: dict[Cell, dict[str, FloatArray]]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each setting and method: means over trials with their Monte Carlo standard
        errors.
        """
        rows = []
        for cell, found in self.figures.items():
            row = about(cell) | {"trials": len(found["mmd2"])}
            for name, values in found.items():
                row |= {
                    name: float(values.mean()),
                    f"{name}_mcse": float(values.std(ddof=1) / np.sqrt(values.size)),
                }
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
    cells: Sequence[Cell],
    trials: int,
    seed: int,
    folder: Path | str | None,
    jobs: int,
    dask: str | None,
    report: Report | None,
    size: int = DRAWS,
) -> Comparison:
    """The same for any list of cells."""
    check(trials, 2, "a comparison needs at least 2 trials, whose spread tells its error")
    check(size, 2, "a comparison needs at least 2 draws")
    if any(cell.method == "ops" for cell in cells) and size > OPS_DRAWS:
        raise UnsupportedCombination(
            f"ops releases {OPS_DRAWS} draws and no more; compare with as many, or leave it out."
        )
    settings = list(dict.fromkeys(cell.setting for cell in cells))
    methods = {
        setting: tuple(cell.method for cell in cells if cell.setting == setting)
        for setting in settings
    }
    chunks, owner = [], {}
    for setting in settings:
        chunk = max(1, min(CHUNK, HELD // (size * sum(p.size for p in setting.family.parameters))))
        for start in range(0, trials, chunk):
            count = min(chunk, trials - start)
            key = (
                f"compare {setting.describe()} {methods[setting]} trials {start} {count} draws "
                f"{size}"
            )
            chunks.append(engine.Chunk(key, _utility, (setting, count, methods[setting], size)))
            owner[key] = setting
    done: dict[Cell, list[list[float]]] = {cell: [] for cell in cells}

    def arrived(made: engine.Chunk, result: engine.Result) -> None:
        for cell in cells:
            if cell.setting == owner[made.key]:
                done[cell].append(result[f"{cell.method} mmd2"])
                if report is not None:
                    report(cell, np.concatenate(done[cell]))

    content = {
        "study": "compare",
        "cells": [cell.key for cell in cells],
        "trials": trials,
        "draws": size,
        "seed": seed,
    }
    with place(folder) as path:
        engine.claim(path, content)
        found = engine.run(chunks, path, seed, jobs, dask, arrived)
    out = {}
    for cell in cells:
        parts = [found[made.key] for made in chunks if owner[made.key] == cell.setting]
        out[cell] = {
            name: np.concatenate([part[f"{cell.method} {name}"] for part in parts])
            for name in FIGURES
        }
    return Comparison(out)


def _utility(
    setting: Setting, trials: int, methods: Sequence[str], size: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Per method and trial: MMD^2 over all of theta; of its first number the 90 % width, relative,
    and the absolute error.
    """
    sample = simulate(setting, trials, rng)
    public = draws(setting, sample, "non-private", size, rng)
    out: dict[str, FloatArray] = {}
    for method in methods:
        private = draws(setting, sample, method, size, rng)
        width = [
            np.diff(np.quantile(made[:, :, 0], [0.05, 0.95], axis=1), axis=0)[0]
            for made in (private, public)
        ]
        error = [
            np.abs(made[:, :, 0].mean(axis=1) - sample.theta[:, 0]) for made in (private, public)
        ]
        found = (
            [mmd.squared(p, q) for p, q in zip(private, public, strict=True)],
            width[0] / width[1],
            error[0],
            error[1],
        )
        out |= {
            f"{method} {name}": np.asarray(values)
            for name, values in zip(FIGURES, found, strict=True)
        }
    return out
