"""Neighbours that add or remove a record: n is not public, and a noisy count goes with the
statistic.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise
from chance import FALSE_ALARM
from noisewise import Bounds, PrivateBounds, families, priors
from noisewise.cli.main import run
from noisewise.curator.plan import Plan
from noisewise.curator.settings import Settings
from noisewise.errors import UnsupportedCombination
from tables import exact_sums

RECORDS: list[Any] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    3.3,
    7.0,
    40.0,
    -40.0,
    1e300,
    math.inf,
    -math.inf,
    math.nan,
    None,
]
FAMILIES = [
    (families.Bernoulli(), None),
    (families.Exponential(), Bounds(0.5, 7, outside="redact")),
    (families.Exponential(), Bounds(0.5, 7, outside="clamp")),
    (families.Poisson(), Bounds(0, 7, outside="clamp")),
    (families.Geometric(), Bounds(1, 7, outside="redact")),
    (families.Gamma(shape=2.0), Bounds(2, 7, outside="clamp")),
    (families.Normal(), Bounds(-1, 7, outside="redact")),
    (families.Normal(), Bounds(-1, 7, outside="clamp")),
    (families.Normal(variance=2.0), Bounds(-7, -1, outside="clamp")),
    (families.Normal(mean=1.0), Bounds(-1, 7, outside="clamp")),
    (families.Categorical(["a", "b", "c"], other="c"), None),
]


def whole(plan: Plan, records: list[Any]) -> np.ndarray:
    """What is released of a table before its noise, in lattice steps."""
    frame = pd.DataFrame({"x": pd.Series(records, dtype=object)})
    n, sums = exact_sums(frame, plan.lattice)[0]
    count = [n * plan.count_weight] if plan.count_weight else []
    return np.array(
        count
        + [value + n * offset for value, offset in zip(sums, plan.lattice.offset, strict=True)],
        dtype=float,
    )


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": 1}], ids=["epsilon", "rho"])
@pytest.mark.parametrize(("family", "bounds"), FAMILIES)
def test_no_record_moves_a_table_further_than_the_declared_sensitivity(
    family, bounds, cost
) -> None:
    """Brute force over neighbouring tables through the real reading; and some record comes close to
    it.
    """
    plan = Plan.widest(
        Settings(column="x", family=family, bounds=bounds, neighbours="add_remove", **cost)
    )
    records = (
        ["a", "b", "c", "d", None, "1"] if isinstance(family, families.Categorical) else RECORDS
    )
    rest = records[:4]
    base = whole(plan, rest)
    norms = [
        np.linalg.norm(whole(plan, [*rest, x]) - base, ord=plan.mechanism.order) for x in records
    ]
    assert max(norms) <= plan.sensitivity * (1 + 1e-12)
    assert max(norms) > 0.95 * plan.sensitivity
    if plan.count_weight:
        assert plan.count_noise is not None
        ratio = plan.count_noise.scales[0] * plan.count_weight / plan.scale
        assert ratio == pytest.approx(1)


def test_count_and_statistic_have_their_declared_noise() -> None:
    """100 releases of one table: z^2 of either against the declared sd, at the suite's false-alarm
    rate.
    """
    frame = pd.DataFrame({"x": np.linspace(0, 6, 500)})
    made = [
        noisewise.release(
            frame,
            column="x",
            family=families.Exponential(),
            bounds=Bounds(0, 5, outside="clamp"),
            rho=0.5,
            ledger=None,
            neighbours="add_remove",
        )
        for _ in range(100)
    ]
    truth = np.clip(frame["x"], 0, 5).sum()
    for z in (
        [(r.count.value - 500) / r.count.noise.scales[0] for r in made],  # type: ignore[union-attr]
        [(r.statistic[0] - truth) / r.noise.scales[0] for r in made],
    ):
        assert (
            2 * min(stats.chi2(100).cdf(np.square(z).sum()), stats.chi2(100).sf(np.square(z).sum()))
            > FALSE_ALARM
        )
    one = made[0]
    assert one.count is not None
    assert one.n is None
    # sqrt(2) sensitivity, rho = 1/2
    assert one.count.noise.scales[0] == pytest.approx(math.sqrt(2), rel=1e-4)
    assert one.privacy is not None
    assert one.privacy.neighbours == "add_remove"
    assert any("not public" in note for note in one.notes)


def test_a_release_is_written_read_and_inferred_from(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    frame = pd.DataFrame({"x": rng.normal(120, 15, 3000)})
    bounds = PrivateBounds(0, 300, epsilon="1", outside="clamp")
    path = tmp_path / "r.json"
    made = noisewise.release(
        frame,
        column="x",
        family=families.Normal(),
        bounds=bounds,
        epsilon=2,
        ledger=None,
        neighbours="add_remove",
        out=path,
    )
    assert noisewise.load(path) == made
    posterior = noisewise.infer(made, priors.NormalInverseGamma(150, 0.1, 2, 500))
    assert posterior.mean("mean") == pytest.approx(120, abs=12 * posterior.sd("mean"))
    assert posterior.sd("mean") < 3
    content = json.loads(path.read_text())
    assert content["n"] is None
    assert content["count"]["value"] == made.count.value  # type: ignore[union-attr]


@pytest.mark.parametrize("extra", ["--dry-run", "--out r.json"])
def test_nothing_that_is_printed_tells_n(extra: str, tmp_path: Path, monkeypatch, capsys) -> None:
    said = []
    for n in (7, 1234):
        folder = tmp_path / str(n)
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("t.csv").write_text("x\n" + "1.5\n" * n)
        words = (
            "release t.csv --column x --family exponential --bounds 0 5 --outside clamp --epsilon "
            "1 --no-ledger"
        )
        assert run([*words.split(), "--neighbours", "add_remove", *extra.split()]) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1]


def test_bounds_far_from_zero_are_refused_and_an_empty_table_is_not() -> None:
    frame = pd.DataFrame({"x": pd.Series([], dtype=float)})
    with pytest.raises(UnsupportedCombination, match="too far from 0"):
        noisewise.release(
            frame,
            column="x",
            family=families.Exponential(),
            bounds=Bounds(1e9, 1e9 + 1, outside="clamp"),
            epsilon=1,
            ledger=None,
            neighbours="add_remove",
        )
    made = noisewise.release(
        frame,
        column="x",
        family=families.Exponential(),
        bounds=Bounds(0, 5, outside="clamp"),
        epsilon=1,
        ledger=None,
        neighbours="add_remove",
    )
    posterior = noisewise.infer(made, priors.Gamma(8, 2), n_prior=priors.Gamma(2, 1))
    assert 0.5 < posterior.mean("rate") < 10
