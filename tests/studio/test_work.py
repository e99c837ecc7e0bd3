"""The pages do what they say: every command that is shown runs, long work can be cancelled, and the
curve follows the slider.
"""

import html
import os
import re
import shlex
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import noisewise
from noisewise import Bounds, families, noise
from noisewise.cli.main import run
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import concentrated, pure
from noisewise.studio.curve import FINE, ROUGH, Curves
from noisewise.studio.families import CHOICES
from noisewise.studio.jobs import Jobs
from noisewise.studio.plan_form import EPSILONS, SIZES, PlanForm
from studio_client import ASKED, EXAMPLES, WORKERS, finished, opened


def commands(said: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r"<code>(cd .*?)</code>", said, re.DOTALL)]


def pasted(said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a page, as a shell would run it, succeeds."""
    found = commands(said)
    assert found
    for command in found:
        change, line = command.split(" &&\n")
        assert shlex.split(change) == ["cd", str(folder)]
        monkeypatch.chdir(folder)
        name, *words = shlex.split(line)
        assert name == "noisewise"
        assert run(words) == 0, line


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"missing": "drop", "neighbours": "add_remove", "description": 'it\'s one; a "test"'},
        {"epsilon": "", "rho": "0.1", "records_per_person": "2", "lower": "-5"}
        | {"family": "normal"},
        {"epsilon": "0.5", "delta": "0.000001", "written": "gamma(shape=2)"},
        {"kind": "table", "table": "wait:0:5:10:60"},
        {"kind": "moments", "moments": "wait:0:60:clamp"},
    ],
)
def test_a_dry_run_and_its_command(
    changes: dict[str, str], client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ASKED | {"dataset": "any", "out": "it's.json"} | changes
    Ledger(folder / "budget.db").set_limit(
        "any", concentrated(9) if asked.get("rho") or asked.get("delta") else pure(9)
    )
    address = client.post("/release/rehearse", data=asked).url.path
    said = finished(client, address)
    assert "this would happen" in said, said
    pasted(said, folder, monkeypatch)
    pasted(client.get(f"{address}/confirm").text, folder, monkeypatch)
    assert (folder / "it's.json").exists()


@pytest.fixture
def releases(folder: Path) -> Path:
    asked = {"ledger": None, "epsilon": 1}
    noisewise.release(
        folder / "visits.csv",
        column="wait",
        family=families.Exponential(),
        bounds=Bounds(0, 60, outside="clamp"),
        out=folder / "wait.json",
        **asked,
    )
    noisewise.release(
        folder / "visits.csv",
        family=families.Table({"wait": noisewise.Bins([0, 5, 10, 20, 60])}),
        out=folder / "hist.json",
        **asked,
    )
    noisewise.release(
        EXAMPLES / "patients.csv",
        family=families.Moments({"bp": Bounds(60, 220, outside="clamp"), "sex": ["f", "m"]}),
        out=folder / "bp.json",
        **asked,
    )
    return folder


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {"release": "wait.json", "prior": "gamma(shape=2, rate=20)", "unit": "minutes"},
            "The mean of wait is",
        ),
        ({"release": "hist.json"}, "Each column by itself"),
        ({"release": "bp.json", "outcome": "bp", "on": "sex"}, "bp on sex: a regression"),
        ({"release": "wait.json", "prior": "nonsense"}, "unknown prior"),
        ({"release": "wait.json", "prior": "<script>alert(1)</script>"}, "Cannot read the prior"),
    ],
)
def test_a_posterior_and_its_command(
    asked: dict[str, str],
    told: str,
    client: TestClient,
    releases: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = finished(client, client.post("/posterior/ask", data={"prior": "weak"} | asked).url.path)
    assert told.lower() in said.lower()
    assert re.search(r"<style|\sstyle=|<script>", said) is None
    if "refused" not in said:
        assert "How far to trust it" in said
        pasted(said, releases, monkeypatch)


def test_a_check_and_its_command(
    client: TestClient, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"release": "wait.json", "histogram": "hist.json", "prior": "weak"}
    said = finished(client, client.post("/check/ask", data=asked).url.path)
    assert "of 499 histograms that the exponential model made itself" in said
    pasted(said, releases, monkeypatch)
    wrong = asked | {"histogram": "wait.json"}
    assert "refused" in finished(client, client.post("/check/ask", data=wrong).url.path)


def test_a_table_of_widths_and_its_command(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"family": "bernoulli", "truth": "probability=0.3", "several": "100 1000"}
    asked |= {"costs": "0.1 1", "width": "0.1"}
    said = finished(client, client.post("/plan/table", data=asked).url.path)
    assert "An interval of 0.1" in said
    pasted(said, folder, monkeypatch)


def test_a_limit_and_its_command(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"ledger": "new.db", "dataset": "<b>it's</b>", "epsilon": "2"}
    said = client.post("/ledger/limit", data=asked).text
    assert "&lt;b&gt;it&#39;s&lt;/b&gt;" in said
    assert "<b>it" not in said
    assert [one.left for one in Ledger(folder / "new.db").accounts()] == [2]
    pasted(said, folder, monkeypatch)
    wrong = client.post("/ledger/limit", data=asked | {"epsilon": "-1"}).text
    assert "positive" in wrong


def test_what_is_left_out_is_said_at_its_field(client: TestClient) -> None:
    said = client.post("/release/rehearse", data={"kind": "one"}).text
    for name in ("file", "column", "family", "epsilon", "ledger", "dataset", "out"):
        assert f'href="#{name}"' in said
        assert f'id="{name}-wrong"' in said


def test_without_the_extra_one_line_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("noisewise.cli.studio.find_spec", lambda _: None)
    assert run(["studio", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "pip install 'noisewise[studio]'" in said
    assert said.count("\n") == 1


def test_long_work_is_cancelled(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, WORKERS)
    slow = {"family": "bernoulli", "truth": "probability=0.3"}
    slow |= {"several": " ".join(map(str, range(100, 1000))), "costs": "0.1 1"}
    job = jobs.start("plan", slow, "")
    end = time.monotonic() + 60
    while job.progress == 0 and time.monotonic() < end:
        time.sleep(0.05)
    assert (job.state, 0 < job.progress < 1) == ("working", True)
    process = job.process
    assert process is not None
    assert job.cancel()
    assert process.wait(10) == -9
    assert job.state == "cancelled"
    assert not job.cancel()
    jobs.close()


@pytest.mark.parametrize("choice", [one for one in CHOICES if one.quick], ids=lambda one: one.text)
def test_the_curve_follows_the_slider(choice: object) -> None:
    """Within a quarter of a second of this process's time; `bench/studio.py` measures answers."""
    curves = Curves()

    def form(size: int, cost: int) -> PlanForm:
        return PlanForm(
            family=choice.text,  # type: ignore[attr-defined]
            truth=choice.truth,  # type: ignore[attr-defined]
            lower=choice.lower,  # type: ignore[attr-defined]
            upper=choice.upper,  # type: ignore[attr-defined]
            outside="clamp" if choice.lower else "",  # type: ignore[attr-defined]
            size=str(size),
            cost=str(cost),
        )

    curves.at(form(0, 0))  # what is loaded and compiled at first
    times = []
    for size in range(1, len(SIZES), 4):
        begin = time.process_time()
        found = curves.at(form(size, 9))
        times.append(time.process_time() - begin)
        assert found is not None
        assert found.width >= 0.8 * found.public
        assert found == curves.at(form(size, 9))
    assert np.median(times) < 0.25
    fine, rough = curves.at(form(9, 9), FINE), curves.at(form(9, 9), ROUGH)
    assert fine is not None
    assert rough is not None
    assert (fine.epsilon, fine.n) == (EPSILONS[9], SIZES[9])
    assert fine.width == pytest.approx(rough.width, rel=0.5)


def test_a_name_in_a_release_is_text_and_a_matplotlibrc_nobodys_settings(folder: Path) -> None:
    """Releases come from others, and so may their files: what htmx obeys in a page could spend."""
    labels = ['a style="<p hx-get=/ledger>:"', '$\\no{1}$ style="&lt;i>:"', "c"]
    release = noisewise.observe(
        family=families.Categorical(labels, other="c"),
        n=60,
        statistic=[30.0, 20.0, 10.0],
        noise=noise.Laplace(2.0),
    )
    release.save(folder / "labels.json")
    (folder / "matplotlibrc").write_text("font.size: 33\ntext.usetex: True\n")
    WORKERS.close()  # those that are ready have read their settings
    with opened(folder) as client:
        asked = {"release": "labels.json", "prior": "weak"}
        said = finished(client, client.post("/posterior/ask", data=asked).url.path)
    assert "33px" not in said
    shown = said[said.index('<div class="report" hx-disable>') :]
    seen = Tags()
    seen.feed(shown)
    assert {"svg", "text", "path"} <= seen.names
    assert not any(name.startswith("hx-") and name != "hx-disable" for name in seen.attributes)
    assert "style" not in seen.attributes
    assert labels[0][:8] in html.unescape(shown)


class Tags(HTMLParser):
    """The names of all elements and of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "x.json")
    with opened(folder) as client:
        assert client.get("/posterior").status_code == 200
