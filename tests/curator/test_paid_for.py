"""A release that is paid for is kept, and what happens then is no failure of it."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.curator import private_bounds
from noisewise.curator.ledger import Ledger
from noisewise.errors import UnsavedRelease
from noisewise.mechanism import opendp
from noisewise.mechanism.privacy import concentrated, pure

COMMAND = (
    "release t.csv --column x --family bernoulli --epsilon 1 --ledger budget.db --dataset d --out"
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(100_000))
    return book


@pytest.fixture
def folder(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x\n1\n0\n")
    return tmp_path


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_long_but_legal_name_is_written(folder: Path) -> None:
    name = "n" * 250 + ".json"
    assert run([*COMMAND.split(), name]) == 0
    assert noisewise.load(name).n == 2


@pytest.mark.parametrize("shell", ["{} > /dev/full", "PYTHONIOENCODING=ascii {}"])
def test_a_release_that_is_made_is_a_success_whatever_happens_to_the_report(
    shell: str, folder: Path, ledger: Ledger
) -> None:
    command = f"{sys.executable} -c 'from noisewise.cli.main import main; main()' {COMMAND} é.json"
    done = subprocess.run(["bash", "-c", shell.format(command)], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert noisewise.load("é.json").privacy.spend == ledger.history()[-1].spend  # type: ignore[union-attr]


def test_a_release_that_cannot_be_written_after_all_is_not_lost(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # of the release alone: the ledger has been written by then
    monkeypatch.setattr("noisewise.files._link_new", full)
    assert run([*COMMAND.split(), "o.json"]) == 2
    seen = capsys.readouterr()
    assert "The budget is spent" in seen.err
    assert noisewise.artifact.parse(seen.out).privacy.spend == ledger.history()[-1].spend  # type: ignore[attr-defined]
    with pytest.raises(UnsavedRelease) as caught:
        noisewise.release(
            "t.csv",
            column="x",
            family=families.Bernoulli(),
            epsilon=1,
            ledger=ledger.path,
            dataset="d",
            out="o.json",
        )
    assert caught.value.release.n == 2
    assert not Path("o.json").exists()
    # an error behind it would lead to frames that hold the records
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_an_interrupt_says_where_to_look(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("noisewise.mechanism.mechanisms.LaplaceMechanism.add_noise", interrupt)
    assert run([*COMMAND.split(), "o.json"]) == 130
    assert "noisewise ledger show" in capsys.readouterr().err
    assert ledger.accounts()[0].spent == 1
    assert not Path("o.json").exists()


@pytest.mark.parametrize(
    "make",
    [
        "pandas.DataFrame({'x': [1, 0, None]})",
        "polars.DataFrame({'x': [1, 0, None]})",
        "pyarrow.table({'x': [1, 0, None]})",
        "duckdb.sql('SELECT 1 AS x')",
        "'t.csv'",
    ],
)
def test_nothing_is_printed_at_exit(make: str, folder: Path) -> None:
    """DuckDB's bindings can report leaked objects when a process ends."""
    module = make.split(".")[0] if "(" in make else "sys"
    code = (
        f"import noisewise, {module}\nnoisewise.release({make}, column='x', "
        "family=noisewise.families.Bernoulli(), epsilon=1, ledger=None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


PRIVATE = {"bounds": PrivateBounds(0, 9, epsilon=1, outside="clamp")}
GROUPED = {"by": "g", "groups": ["a", "b"], "sizes": "released"}


@pytest.mark.parametrize(
    "change", [{}, PRIVATE, GROUPED, PRIVATE | {"rho": 1, "epsilon": None}], ids=str
)
def test_no_noise_is_drawn_before_it_is_paid_for(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that of the statistic nor that of private bounds: noise that is seen and not paid for
    could be drawn again.
    """
    book, events = Ledger(tmp_path / "b.db"), []
    book.set_limit("d", concentrated(99))

    def watched(place: Any, name: str) -> None:
        call = getattr(place, name)

        def tell(*given: Any, **named: Any) -> Any:
            found = call(*given, **named)
            events.append(name)
            return found

        monkeypatch.setattr(place, name, tell)

    watched(Ledger, "spend")
    watched(private_bounds, "private_argmin")
    watched(opendp, "draw")
    asked: dict[str, Any] = {
        "column": "x",
        "family": families.Poisson(),
        "bounds": Bounds(0, 9, outside="clamp"),
        "epsilon": 1,
        "ledger": book.path,
        "dataset": "d",
    }
    frame = pd.DataFrame({"x": [1, 2, 3], "g": ["a", "b", "b"]})
    noisewise.release(frame, **(asked | change))
    quantiles = 2 if "bounds" in change else 0
    assert events == ["spend", *["private_argmin"] * quantiles, "draw"]
