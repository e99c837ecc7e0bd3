"""`calibrate`: is a method right?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.priors import Prior
from noisewise.study import engine
from noisewise.study.cells import Cell, Report, about, grid, place
from noisewise.study.trials import Setting, targets, uniforms
from noisewise.study.verdict import LEVELS, Verdict, judge

CHUNK = 500
"""Trials of a chunk; fixed, so that results do not depend on the number of workers."""


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
            rows.append(
                about(cell)
                | {"target": target, "passes": found.passes, "verdict": found.words}
                | _flat(found)
            )
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
    """Simulate trials of every n, epsilon and method, and place the truth in its posterior. With a
    folder, it can be resumed.
    """
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
            made = engine.Chunk(
                f"{cell.key} trials {start} {size}", _uniforms, (cell.setting, size, cell.method)
            )
            chunks.append(made)
            owner[made.key] = cell
    done: dict[Cell, list[dict[str, list[float]]]] = {cell: [] for cell in cells}

    def arrived(made: engine.Chunk, result: engine.Result) -> None:
        cell = owner[made.key]
        done[cell].append(result)
        if report is not None:
            first = targets(cell.setting.family)[0]
            report(cell, np.concatenate([part[first] for part in done[cell]]))

    content = {
        "study": "calibrate",
        "cells": [cell.key for cell in cells],
        "trials": trials,
        "seed": seed,
    }
    with place(folder) as path:
        engine.claim(path, content)
        found = engine.run(chunks, path, seed, jobs, dask, arrived)
    out: dict[tuple[Cell, str], FloatArray] = {}
    for cell in cells:
        parts = [found[made.key] for made in chunks if owner[made.key] == cell]
        for target in targets(cell.setting.family):
            out[cell, target] = np.concatenate([part[target] for part in parts])
    return Calibration(out)


def _uniforms(
    setting: Setting, trials: int, method: str, rng: np.random.Generator
) -> dict[str, FloatArray]:
    return uniforms(setting, trials, rng, method)


def _flat(found: Verdict) -> dict[str, Any]:
    row = asdict(found)
    coverage, low, high = (row.pop(name) for name in ("coverage", "coverage_low", "coverage_high"))
    for j, level in enumerate(LEVELS):
        row |= {
            f"coverage_{level:.0%}": coverage[j],
            f"coverage_{level:.0%}_low": low[j],
            f"coverage_{level:.0%}_high": high[j],
        }
    return row
