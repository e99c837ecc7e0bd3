"""Nothing that a release run emits holds a record: standard output and error, logs at debug level,
files, temporary files.

Canaries are planted among the records and looked for everywhere, as text and as the bytes of a
double.
"""

import os
import struct
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, families
from noisewise.curator import publish
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.mechanisms import LaplaceMechanism
from noisewise.mechanism.privacy import pure

NUMBERS = [4711.08154711, 31.41592653589]
WORD = "zyxwv-canary-7f3a"
RUN = """
import logging, sys, warnings
logging.basicConfig(level=logging.DEBUG)
warnings.simplefilter("always")
from noisewise.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
FAILING = {
    "broken": lambda path: path.write_text(f'x,y\n{NUMBERS[0]},{WORD}\n"{NUMBERS[1]},{WORD}\n'),
    "ragged": lambda path: path.write_text(
        f"x,y\n{NUMBERS[0]},{WORD}\n{NUMBERS[1]},{WORD},{WORD}\n"
    ),
    "no parquet": lambda path: path.with_suffix(".parquet").write_bytes(
        f"PAR1{NUMBERS[0]}{WORD}PAR1".encode()
    ),
}


def emitted(folder: Path, words: list[str]) -> tuple[int, bytes]:
    """The exit status, and everything that a run in a process of its own says or writes beside its
    input.
    """
    scratch = folder / "scratch"
    scratch.mkdir()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    environment = os.environ | {
        "TMPDIR": str(scratch),
        "PYTHONWARNINGS": "always",
        "PYTHONDEVMODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert list(scratch.iterdir()) == []  # what was written there did not outlive the process
    new = [
        path
        for path in folder.rglob("*")
        if path.is_file() and before.get(path) != path.read_bytes()
    ]
    return done.returncode, done.stdout + done.stderr + b"".join(
        path.name.encode() + path.read_bytes() for path in new
    )


def assert_silent(said: bytes) -> None:
    for number in NUMBERS:
        for canary in (repr(number).encode(), f"{number:g}".encode(), struct.pack("<d", number)):
            assert canary not in said
    assert WORD.encode() not in said


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "settings",
    [
        "--column x --family exponential --bounds 0 60 --outside redact --epsilon 0.1",
        "--column x --family normal --bounds 0 60 --outside clamp --rho 0.01 --neighbours "
        "add_remove",
        "--column y --family categorical(categories=['a','b'],other='b') --epsilon 0.1",
        "--column y --family bernoulli --epsilon 0.1 --dry-run",
        "--column x --family poisson --outside clamp --epsilon 0.1 --bounds private "
        "--bounds-range 0 1000 --bounds-epsilon 0.1",
    ],
)
def test_a_release_holds_no_record(settings: str, suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [*NUMBERS * 20, 1.0], "y": [WORD] * 40 + ["a"]})
    path = tmp_path / f"table{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    with pytest.raises(AssertionError):
        assert_silent(path.read_bytes())  # the canaries are there to be found
    out = [] if "--dry-run" in settings else ["--out", "r.json"]
    status, said = emitted(tmp_path, ["release", path.name, *settings.split(), "--no-ledger", *out])
    assert status == 0, said
    assert_silent(said)


@pytest.mark.parametrize("kind", FAILING)
def test_a_refusal_holds_no_record(kind: str, tmp_path: Path) -> None:
    FAILING[kind](tmp_path / "table.csv")
    (table,) = [path.name for path in tmp_path.iterdir()]
    words = (
        "--column x --family exponential --bounds 0 60 --outside redact --epsilon 0.1 --no-ledger "
        "--out r.json"
    )
    status, said = emitted(tmp_path, ["release", table, *words.split()])
    assert status == 2
    assert_silent(said)


def frame() -> pd.DataFrame:
    return pd.DataFrame({"x": NUMBERS, "y": [WORD] * 2})


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def broken(*_: Any) -> None:
    raise MemoryError(WORD)  # as an engine might quote what it was given


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        (None, None),
        ("add_noise", broken),
        ("add_noise", interrupted),
        ("check_headroom", interrupted),
        ("write_once", interrupted),
    ],
)
def test_a_traceback_with_locals_holds_no_record(
    part: str | None, fault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tools print the variables of every frame. Ours hold neither records nor exact sums when
    an error leaves them.
    """
    if part is not None:
        monkeypatch.setattr(LaplaceMechanism if part == "add_noise" else publish, part, fault)
    ledger = Ledger(tmp_path / "b.db")
    ledger.set_limit("d", pure("0.1" if part is None else "1"))
    settings: dict[str, Any] = {
        "column": "x",
        "family": families.Exponential(),
        "bounds": Bounds(0, 5000, outside="clamp"),
    }
    settings |= {
        "epsilon": "0.5",
        "ledger": ledger.path,
        "dataset": "d",
        "out": tmp_path / "r.json",
        "by": "y",
        "groups": ["a"],
    }
    try:
        noisewise.release(frame(), sizes="public", **settings)
    except BaseException as error:
        said = "".join(
            traceback.TracebackException.from_exception(error, capture_locals=True).format()
        )
    assert "publish.py" in said
    assert_silent(said.encode())
    assert f"{sum(NUMBERS):.3f}" not in said


def test_a_traceback_of_a_refused_setting_holds_no_record() -> None:
    """It is refused before the records have been handed on."""
    settings: dict[str, Any] = {"column": "x", "family": families.Bernoulli(), "epsilon": 1}
    with pytest.raises(ValueError, match="neighbours must be") as caught:
        noisewise.release(frame(), neighbours="none", ledger=None, **settings)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    said = "".join(told.format())
    assert "publish.py" in said
    assert_silent(said.encode())
