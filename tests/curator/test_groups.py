"""One release for each public group, at the cost of one: sensitivities by brute force, the files,
the ledger, the posteriors.
"""

import itertools
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
from noisewise.curator.ledger import Ledger
from noisewise.curator.plan import Plan
from noisewise.curator.settings import Settings
from noisewise.errors import UnsupportedCombination
from noisewise.inference.observations import gather
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import pure
from tables import exact_sums

GROUPS = ("Kent", "7", "empty")
VALUES: list[Any] = [0.0, 0.5, 3.3, 7.0, 40.0, -40.0, None]
CASES = [
    (families.Bernoulli(), None, [0.0, 1.0, None, 2.0]),
    (families.Exponential(), Bounds(0.5, 7, outside="redact"), VALUES),
    (families.Exponential(), Bounds(0.5, 7, outside="clamp"), VALUES),
    (families.Normal(), Bounds(-1, 7, outside="clamp"), VALUES),
    (families.Categorical(["a", "b", "c"], other="c"), None, ["a", "b", "c", "d", None]),
]


GROUPED = {"by": "g", "groups": GROUPS}
RELATIONS: dict[str, dict[str, str]] = {
    "replace_one": {"sizes": "public"},
    "move": {"sizes": "released"},
    "add_remove": {"sizes": "released", "neighbours": "add_remove"},
}


def whole(plan: Plan, records: list[tuple[Any, Any]]) -> np.ndarray:
    """Everything that is released of all groups before its noise, in lattice steps."""
    frame = pd.DataFrame(
        {
            "x": pd.Series([x for x, _ in records], dtype=object),
            "g": pd.Series([g for _, g in records], dtype=object),
        }
    )
    out: list[int] = []
    for n, sums in exact_sums(frame, plan.lattice, by="g", groups=GROUPS):
        out += [n * plan.count_weight] * bool(plan.count_weight)
        out += [
            value + (0 if plan.public else n * offset)
            for value, offset in zip(sums, plan.lattice.offset, strict=True)
        ]
    return np.array(out, dtype=float)


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": 1}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("family", "bounds", "values"), CASES)
def test_no_neighbour_is_further_than_the_declared_sensitivity(
    family, bounds, values, neighbours, cost
) -> None:
    """Every replacement of a record within its group, by any record of any group, or with none,
    through the real reading.
    """
    plan = Plan.widest(
        Settings(
            column="x", family=family, bounds=bounds, **GROUPED, **RELATIONS[neighbours], **cost
        )
    )
    rest = [(values[1], "Kent"), (values[0], 7), (values[0], "elsewhere")]
    places = ("Kent", "7", "elsewhere", None)
    tables = {(x, g): whole(plan, [*rest, (x, g)]) for x in values for g in places}
    base = whole(plan, rest)
    worst = 0.0
    for (a, b), (c, d) in itertools.product(tables, repeat=2):
        if neighbours == "move" or (neighbours == "replace_one" and b == d):
            worst = max(
                worst, np.linalg.norm(tables[a, b] - tables[c, d], ord=plan.mechanism.order)
            )
    if neighbours == "add_remove":
        worst = max(
            np.linalg.norm(made - base, ord=plan.mechanism.order) for made in tables.values()
        )
    assert worst <= plan.sensitivity * (1 + 1e-12)
    assert worst > 0.9 * plan.sensitivity


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    rows = [
        f"{x:.3f},{g}"
        for g, n in (("Kent", 400), ("7", 300), ("elsewhere", 50))
        for x in rng.exponential(2.0, n)
    ]
    Path("t.csv").write_text("x,county\n" + "\n".join(rng.permutation(rows)) + "\n")
    Path("groups.txt").write_text("Kent\n7\n\nempty\n")
    Ledger(tmp_path / "b.db").set_limit("d", pure(10))
    return tmp_path


@pytest.mark.parametrize("sizes", ["public", "released"])
def test_every_group_gets_a_release_and_a_posterior(
    sizes: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "release t.csv --column x --family exponential --bounds 0 20 --outside clamp --epsilon 2 "
        "--ledger b.db --dataset d"
    )
    grouped = [*words.split(), "--by", "county", "--groups-file", "groups.txt", "--sizes", sizes]
    assert run([*grouped, "--dry-run"]) == 0
    assert "3 groups by 'county'" in capsys.readouterr().out
    assert run([*grouped, "--out", "r.jsonl"]) == 0
    assert "3 groups by 'county', cost epsilon = 2" in capsys.readouterr().out
    (account,) = Ledger(folder / "b.db").accounts()
    assert (account.spent, account.releases) == (2, 1)
    made = noisewise.load_many("r.jsonl")
    assert [one.group for one in made] == [("county", "Kent"), ("county", "7"), ("county", "empty")]
    if sizes == "public":
        assert [one.n for one in made] == [400, 300, 0]
    else:
        assert [one.n for one in made] == [None] * 3
        assert [one.count.value for one in made] == pytest.approx([400, 300, 0], abs=60)  # type: ignore[union-attr]
    found = noisewise.infer_many(made, priors.Gamma(4, 8), n_prior=None)
    for posterior in found[:2]:
        # the noise is new every time
        assert posterior.mean("rate") == pytest.approx(0.5, abs=12 * posterior.sd("rate"))
    if sizes == "public":  # nothing is known of an empty group but the prior
        assert found[2].mean("rate") == pytest.approx(0.5, rel=1e-3)
        assert found[2].sd("rate") == pytest.approx(0.25, rel=1e-3)
    # groups share no record: their likelihoods multiply
    both = noisewise.infer(list(made[:2]), priors.Gamma(4, 8))
    rate = np.linspace(0.05, 2.5, 2001)
    log = stats.gamma.logpdf(rate, 4, scale=1 / 8)
    log += sum(
        gather([one]).exact(rate[:, None], np.zeros(rate.size, dtype=np.int64))[0]
        for one in made[:2]
    )
    weight = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    mean = weight @ rate
    assert both.mean("rate") == pytest.approx(mean, abs=0.01 * both.sd("rate"))
    assert both.sd("rate") == pytest.approx(np.sqrt(weight @ (rate - mean) ** 2), rel=0.01)
    rates = [row["group"] for row in found.table() if row["name"] == "rate"]
    assert rates == ["Kent", "7", "empty"]
    assert run(["infer", "r.jsonl", "--prior", "gamma(shape=4, rate=8)", "--out", "r.csv"]) == 0
    assert "Kent" in Path("r.csv").read_text()


def test_a_group_keeps_its_noise_to_itself(folder: Path) -> None:
    """60 releases of three groups: their noises do not move together, and they have the declared
    scale.
    """
    made = [
        noisewise.release(
            "t.csv",
            column="x",
            family=families.Exponential(),
            bounds=Bounds(0, 20, outside="clamp"),
            epsilon=1,
            ledger=None,
            by="county",
            groups=GROUPS,
            sizes="public",
        )
        for _ in range(60)
    ]
    z = np.array([[one.statistic[0] for one in several] for several in made])
    assert np.abs(np.corrcoef(z.T)[np.triu_indices(3, 1)]).max() < 5.5 / np.sqrt(60)
    # |noise|/scale is exponential: the sum of 60 x 3 of them is Gamma(180), within 37 % of its mean
    lattice = lattice_for(families.Exponential(), Bounds(0, 20, outside="clamp"))
    exact = exact_sums("t.csv", lattice, by="county", groups=GROUPS)
    true = [sums[0] * lattice.step[0] for _, sums in exact]
    sizes = np.abs(z - true) / 20
    low, high = stats.gamma.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 180)
    assert low < sizes.sum() < high


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": None}, "groups must list"),
        ({"groups": "Kent"}, "groups must list"),
        ({"groups": []}, "groups must list"),
        ({"groups": ["a", True]}, "printable text or a whole number"),
        ({"groups": ["1", "1.0"]}, "groups must differ"),
        ({"sizes": None}, "sizes must be"),
        ({"sizes": "secret"}, "sizes must be"),
        ({"neighbours": "add_remove"}, "no size is public"),
        ({"by": None}, "go with by"),
        (
            {"bounds": PrivateBounds(0, 20, epsilon=1, outside="clamp")},
            "private bounds do not go with groups",
        ),
        ({"by": "nowhere"}, "'nowhere'"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    change: dict[str, Any], message: str, folder: Path
) -> None:
    asked: dict[str, Any] = {
        "column": "x",
        "family": families.Exponential(),
        "bounds": Bounds(0, 20, outside="clamp"),
        "epsilon": 1,
        "ledger": folder / "b.db",
        "dataset": "d",
        "by": "county",
        "groups": GROUPS,
        "sizes": "public",
    }
    with pytest.raises((UnsupportedCombination, noisewise.errors.RecordsError), match=message):  # type: ignore[attr-defined]
        noisewise.release("t.csv", **(asked | change))
    assert Ledger(folder / "b.db").accounts()[0].spent == 0


def test_every_form_of_table_gives_the_same_groups(folder: Path) -> None:
    import duckdb
    import polars as pl
    import pyarrow as pa

    lattice = lattice_for(families.Normal(), Bounds(0, 20, outside="clamp"))
    frame = pd.read_csv("t.csv", dtype={"county": object})
    arrow = pa.Table.from_pandas(frame)
    arrow_file = folder / "t.parquet"
    frame.to_parquet(arrow_file)
    tables = [
        "t.csv",
        arrow_file,
        frame,
        pl.from_pandas(frame),
        pl.from_pandas(frame).lazy(),
        arrow,
        duckdb.from_df(frame),
    ]
    found = [exact_sums(table, lattice, by="county", groups=GROUPS) for table in tables]
    assert found == found[:1] * len(tables)
    assert [n for n, _ in found[0]] == [400, 300, 0]
