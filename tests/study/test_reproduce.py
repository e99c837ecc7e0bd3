"""The paper's figures: a part of the plan, run from end to end."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from noisewise.study import reproduce


def test_the_plan_is_the_papers() -> None:
    plan = reproduce.plan(quick=False)
    assert plan.trials == 1000
    assert plan.draws == 5000
    shown = {(reproduce._model(cell), cell.method) for cell in plan.calibrated}
    assert {("binomial", m) for m in ("gibbs", "auto", "naive", "ops", "non-private")} <= shown
    assert ("exponential, own bounds", "gibbs-paper") in shown
    assert {cell.setting.epsilon for cell in plan.calibrated} == {0.01, 0.1}
    assert {reproduce._model(cell) for cell in plan.compared} == {"binomial", "multinomial"}
    assert any(cell.setting.n == reproduce.ECDF_N for cell in plan.calibrated)


@pytest.mark.thorough
def test_one_figure_of_the_paper_is_redrawn_with_its_verdicts(tmp_path) -> None:
    whole = reproduce.plan(quick=True)
    cells = [
        cell
        for cell in whole.calibrated
        if cell.setting.n == 1000 and not cell.method.startswith("gibbs")
    ]
    compared = [
        cell for cell in whole.compared if cell.setting.n == 1000 and cell.method != "gibbs"
    ]
    plan = replace(
        whole, calibrated=cells, compared=compared, trials=60, trials_compared=4, draws=300
    )
    seen = []

    @contextmanager
    def watch(cells, trials, what, figure):
        yield lambda cell, values: seen.append(cell.method)

    page = reproduce.run(plan, tmp_path / "paper", 0, 1, None, watch, "noisewise reproduce")
    text = page.read_text()
    assert text.count("<svg") == 4
    assert "critical value" in text
    for name in ("figure1a", "figure1b", "figure1c", "convergence"):
        assert (page.parent / f"{name}.svg").stat().st_size > 5000
        assert (page.parent / f"{name}.png").stat().st_size > 5000
    assert (page.parent / "figure1ab.csv").read_text().count("\n") == 1 + sum(
        2 if "multi" in reproduce._model(c) else 1 for c in cells
    )
    assert set(seen) == {"auto", "naive", "naive-untruncated", "ops", "non-private"}
    assert np.isfinite([u.mean() for u in _uniforms(page.parent)]).all()


def _uniforms(folder):
    import json

    for file in (folder / "calibration" / "chunks").glob("*.json"):
        yield from (np.array(values) for values in json.loads(file.read_text()).values())
