"""Pages for readers: what they say, in which units; self-contained, and safe against names."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.cli.main import run
from noisewise.errors import UnsupportedCombination
from noisewise.report.axes import plain, readable
from noisewise.report.context import Context
from noisewise.report.page import Page
from noisewise.report.plots import figure
from noisewise.report.posterior_figures import plot_intervals
from noisewise.report.prior_curves import prior_density, prior_draws
from noisewise.report.regression_page import regression_page
from noisewise.report.units import Units, figure_text

EVIL = '<script>alert("1")</script> & `x` $3$'


class Reader(HTMLParser):
    """The tags of a page, and its visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def check_page(text: str) -> str:
    """Self-contained and without a script; returns what a person sees."""
    assert "://" not in text
    found = Reader(text)
    assert not {"script", "link", "iframe", "img", "object", "embed"} & {
        tag for tag, _ in found.tags
    }
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "src"], tag
        link = attributes.get("href") or attributes.get("xlink:href") or "#"
        assert link.startswith("#")
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for wanted in ("prefers-color-scheme: dark", "@media print", 'name="viewport"', "default-src"):
        assert wanted in text
    return " ".join(found.text.split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def release(**changed) -> noisewise.Release:
    made = noisewise.observe(
        family=families.Exponential(),
        n=2000,
        statistic=27_200.0,
        noise=noise.Laplace(120),
        bounds=Bounds(0, 60, outside="clamp"),
    )
    return type(made)(**({name: getattr(made, name) for name in made.__slots__} | changed))


def records(folder: Path) -> None:
    rng = np.random.default_rng(7)
    lines = ["ward,wait,bp,sex"]
    for j in range(600):
        ward, sex = ("a", EVIL.replace('"', "'"), "c")[j % 3], "fm"[j % 2]
        lines.append(f'"{ward}",{rng.exponential(14):.2f},{rng.normal(130, 15):.1f},{sex}')
    (folder / "r.csv").write_text("\n".join(lines) + "\n")
    (folder / "wards.txt").write_text("\n".join(["a", EVIL.replace('"', "'"), "c"]) + "\n")


def test_one_column(folder: Path) -> None:
    release(column="wait", description=EVIL, dataset=EVIL).save("w.json")
    words = ["report", "w.json", "--prior", "gamma(shape=2, rate=20)", "--unit", "minutes"]
    assert run([*words, "--out", "w.html"]) == 0
    text = (folder / "w.html").read_text()
    said = check_page(text)
    posterior = noisewise.infer(noisewise.load("w.json"), priors.Gamma(2, 20))
    low, high = posterior.interval("mean", 0.9)
    assert (
        f"The mean of wait is {posterior.mean('mean'):.4g} minutes: with a probability of 90 % it "
        f"lies between {low:.4g} and {high:.4g} minutes."
    ) in said
    prior = stats.invgamma(2, scale=20)
    before = said.split("the prior had it between ")[1].split(" minutes")[0].split(" and ")
    assert [float(end) for end in before] == pytest.approx(prior.ppf([0.05, 0.95]), rel=0.05)
    assert posterior.certificate.reason in said
    assert "another tool made it" in said
    assert EVIL in said  # as text
    assert "<script" not in text


def test_a_curators_release_says_what_it_cost(folder: Path, capsys) -> None:
    records(folder)
    words = "release r.csv --column wait --family exponential --bounds 0 60 --outside clamp"
    assert run([*words.split(), "--epsilon", "0.5", "--no-ledger", "--dry-run"]) == 0
    sentence = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("epsilon = 0.5,")
    )
    assert "62.2 %" in sentence
    assert run([*words.split(), *["--epsilon", "0.5", "--no-ledger", "--out", "w.json"]]) == 0
    assert run(["report", "w.json", "--out", "w.html"]) == 0
    assert sentence in check_page((folder / "w.html").read_text())
    plan = "plan --family exponential --bounds 0 60 --outside clamp --n 50 --epsilon 0.5"
    assert run([*plan.split(), "--truth", "rate=0.07", "--trials", "2"]) == 0
    assert sentence in capsys.readouterr().out


def test_groups_alone_and_pooled(folder: Path) -> None:
    records(folder)
    words = (
        "release r.csv --column wait --family exponential --bounds 0 60 --outside clamp --epsilon 2"
        " --by ward --groups-file wards.txt --sizes public --no-ledger --out g.jsonl"
    )
    assert run(words.split()) == 0
    for extra in ([], ["--pool"]):
        assert run(["report", "g.jsonl", "--unit", "minutes", "--out", "g.html", *extra]) == 0
        text = (folder / "g.html").read_text()
        said = check_page(text)
        assert EVIL.replace('"', "'") in said
        assert "<script" not in text
        assert "one record, within its group" in said
    assert run(["report", "g.jsonl", "--of", "rate", "--unit", "minutes", "--out", "g.html"]) == 0
    assert "largest rate of wait, 0.0" in check_page((folder / "g.html").read_text())
    assert run(["report", "g.jsonl", "--of", "speed", "--out", "g.html"]) == 2
    found = noisewise.infer_many(noisewise.load_many("g.jsonl"), "weak")
    largest = max(found, key=lambda one: one.mean("mean"))
    assert run(["report", "g.jsonl", "--out", "g.html"]) == 0
    first = check_page((folder / "g.html").read_text()).split("All groups")[1]
    assert f"{largest.mean('mean'):.4g}" in first[:120]


def test_several_columns_regression_and_table(folder: Path) -> None:
    records(folder)
    moments = "release r.csv --moments bp:60:220 wait:0:60:clamp sex:f,m --epsilon 6 --no-ledger"
    assert run([*moments.split(), "--out", "m.json"]) == 0
    assert run(["report", "m.json", "--unit", "bp=mmHg", "wait=minutes", "--out", "m.html"]) == 0
    said = check_page((folder / "m.html").read_text())
    assert "The mean of bp is 1" in said
    assert "mmHg: with a probability of 90 %" in said
    made = noisewise.load("m.json")
    posterior = noisewise.regress(made, "bp", ["wait", "sex"], draws=1000, seed=0)
    context = Context(units=Units.of(["bp=mmHg", "wait=minutes"]))
    said = check_page(regression_page(posterior, priors.Linear(), [made], context).render())
    slope = 10 * posterior.mean("wait")
    side = "higher" if slope >= 0 else "lower"
    assert f"With wait 10 minutes higher, bp is {abs(slope):.4g} mmHg {side} on average" in said
    assert "With sex m instead of f" in said
    assert "one person's, 90 % between" in said
    words = "report m.json --outcome bp --on wait sex --unit mmHg --out b.html"
    assert run(words.split()) == 0
    said = check_page((folder / "b.html").read_text())
    assert "mmHg higher on average" in said or "mmHg lower on average" in said
    assert "With wait 10 higher" in said
    table = "release r.csv --table sex:f,m wait:0:10:60 --rho 1 --no-ledger --out t.json"
    assert run(table.split()) == 0
    assert run(["report", "t.json", "--out", "t.html"]) == 0
    said = check_page((folder / "t.html").read_text())
    assert "Cramér's V" in said
    assert "the best guess about what somebody's record says" in said
    assert "delta = 0.000001" in said


def test_a_page_of_columns_leads_with_means_that_need_no_prior(folder: Path) -> None:
    """Few visits fill little of 0 to 60: the weak prior of `infer` is many sds off, and the page
    shows what `mean` says; a prior that is stated is used.
    """
    rng = np.random.default_rng(5)
    visits = Bounds(0, 60, outside="clamp")
    made = noisewise.release(
        pd.DataFrame({"visits": rng.poisson(0.4, 4000)}),
        family=families.Moments({"visits": visits}),
        epsilon=1,
        ledger=None,
        out=folder / "v.json",
    )
    right, leaning = noisewise.mean(made, seed=0).mean, noisewise.infer(made, "weak", seed=0)
    assert abs(leaning.mean("mean") - right) > 0.05
    assert run(["report", "v.json", "--out", "v.html"]) == 0
    said = check_page((folder / "v.html").read_text())
    assert f"The mean of visits is {right:.4g}:" in said
    assert "whatever the columns' shapes" in said
    stated = "normal_inverse_wishart(mean=-1, strength=0.01, degrees=2, scale=0.0001)"
    assert run(["report", "v.json", "--prior", stated, "--out", "s.html"]) == 0
    assert "whatever the columns' shapes" not in check_page((folder / "s.html").read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("report w.json --out w.pdf", "must end in .html"),
        ("report w.json --on age --out w.html", "--on goes with --outcome"),
        ("report w.json --outcome bp --out w.html", "needs a release of families.Moments"),
        ("report none.json --out w.html", "none.json"),
        ("report w.json --pool --out w.html", "--pool needs several groups"),
    ],
)
def test_refusals_are_one_line(words: str, said: str, folder: Path, capsys) -> None:
    release(column="wait").save("w.json")
    assert run(words.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (folder / "w.html").exists()


def test_the_pool_of_a_family_with_a_mean_beside_its_rate(folder: Path, capsys) -> None:
    """Once its table had two rows for each group."""
    with open("g.jsonl", "w") as file:
        for g, total in enumerate((5000.0, 6000.0, 9000.0)):
            one = release(n=500, statistic=(total,), group=("ward", f"w{g}"))
            file.write(json.dumps(json.loads(one.to_json())) + "\n")
    assert run(["pool", "g.jsonl", "--plot", "f.svg", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["groups"]] == ["rate"] * 3


def test_sixty_groups_have_their_names_and_are_sorted(rng) -> None:
    mean = rng.normal(size=60)
    names = [f"group {j}" for j in range(60)]
    made = plot_intervals(names, mean, mean - 1, mean + 1, "mean, minutes", sort=True)
    made.draw_without_rendering()
    (axis,) = made.axes
    shown = [label.get_text() for label in axis.get_yticklabels()]
    assert shown == [names[j] for j in np.argsort(-mean)]
    boxes = [label.get_window_extent() for label in axis.get_yticklabels()]
    assert all(a.y0 >= b.y1 - 1 for a, b in pairwise(boxes))  # no overlap
    (legend,) = made.legends
    assert not legend.get_window_extent().overlaps(axis.get_window_extent())


@pytest.mark.parametrize(
    ("low", "high", "label", "ticks"),
    [
        (2e-6, 8e-6, "rate, in millionths", "5"),
        (1e6, 5e7, "income, in millions", "20"),
        (10.0, 20.0, "mean", "14"),
    ],
)
def test_no_power_of_ten_stands_in_a_corner(low, high, label, ticks) -> None:
    made, table = figure(1, 1)
    axis = table[0, 0]
    axis.plot([low, high], [0, 1])
    readable(axis, low, high, label.split(",")[0])
    made.draw_without_rendering()
    assert axis.xaxis.get_offset_text().get_text() == ""
    assert axis.get_xlabel() == label
    assert ticks in [text.get_text() for text in axis.get_xticklabels()]


def test_the_priors_curve_is_its_density() -> None:
    prior = priors.Gamma(2, 20)
    draws, axis = prior_draws(prior, families.Exponential(), "mean")
    at = np.array([5.0, 10.0, 20.0, 40.0])
    np.testing.assert_allclose(
        prior_density(draws, axis, at), stats.invgamma(2, scale=20).pdf(at), rtol=0.12
    )


def test_units_in_words() -> None:
    units = Units.of(["bp=mmHg", "age=years"])
    assert units.quantity("mean[bp]", None, "moments") == "mmHg"
    assert units.quantity("correlation", None, "moments") == ""
    assert Units.of(["bp=mm Hg age=years"]).named == {"bp": "mm Hg", "age": "years"}
    assert Units.of(["mmHg", "age=years"], "bp") == Units("", {"bp": "mmHg", "age": "years"})
    minutes = Units.of(["minutes"])
    assert minutes.quantity("mean", "wait", "exponential") == "minutes"
    assert minutes.quantity("rate", "wait", "exponential") == "per minute"
    assert figure_text(1234567.0) == "1\N{NARROW NO-BREAK SPACE}235\N{NARROW NO-BREAK SPACE}000"
    assert figure_text(-0.0000123456) == "\N{MINUS SIGN}0.00001235"
    assert plain("$3$") == r"\$3\$"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mmHg"], "--unit mmHg: of which column? Say it of each, such as bp=mmHg."),
        (["bq=mmHg"], "'bq', which is no column of the release; it has: bp, age, sex."),
    ],
)
def test_units_of_no_column_are_refused(words, said) -> None:
    unit = Bounds(0, 200, outside="clamp")
    family = families.Moments({"bp": unit, "age": unit, "sex": ["f", "m"]})
    made = noisewise.observe(
        family=family, n=9, statistic=[1.0] * family.dimension, noise=noise.Laplace(1.0)
    )
    with pytest.raises(UnsupportedCombination, match=re.escape(said)):
        Units.asked(words, made)


def test_a_page_escapes_everything() -> None:
    page = Page(EVIL)
    page.heading(EVIL)
    page.words(EVIL)
    page.warning(EVIL)
    page.bullets([EVIL])
    page.facts([(EVIL, EVIL)])
    page.code(EVIL)
    page.table([{EVIL: EVIL}])
    page.footer(EVIL)
    made, table = figure(1, 1)
    table[0, 0].set_xlabel(plain(EVIL))
    page.figures([(made, EVIL)])
    text = page.render()
    said = check_page(text)
    assert "<script" not in text
    assert said.count('<script>alert("1")</script>') == 14  # the title twice
