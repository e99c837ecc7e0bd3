"""The examples of the README and of the guides run as printed."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, families
from noisewise.cli.main import run
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import pure

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "SECURITY.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md"))),
]


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(
        rf"^```{kind}\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    Ledger(tmp_path / "budget.db").set_limit("visits-2026", pure(10))
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_every_python_example_runs(page: str, folder: Path) -> None:
    for block in blocks(page, ""):
        for command in block.replace("\\\n", " ").splitlines():
            if command.startswith("noisewise reproduce"):
                continue  # a quarter of an hour; tests/study/test_reproduce.py runs a part of it
            if command.startswith("noisewise studio"):
                continue  # until Ctrl-C; tests/studio opens it
            if command.startswith("printf "):
                subprocess.run(command, shell=True, check=True)
            if command.startswith("noisewise "):
                few = (
                    ["--trials", "20"]
                    if command.startswith(("noisewise calibrate", "noisewise compare"))
                    else []
                )
                few = ["--runs", "500"] if command.startswith("noisewise audit") else few
                assert run([*shlex.split(command.split("#")[0])[1:], *few]) == 0, command
    for block in blocks(page, "python"):
        exec(block, {"__name__": "example"})


def test_the_smallest_family_of_the_guide_releases(folder: Path) -> None:
    (block,) = blocks("docs/own-family.md", "python")
    names: dict[str, type[families.Family]] = {"__name__": "example"}  # type: ignore[dict-item]
    exec(block, names)
    frame = pd.DataFrame({"x": [1.0, 2.0, None]})
    made = noisewise.release(
        frame,
        column="x",
        family=names["Squares"](),
        bounds=Bounds(0, 9, outside="redact"),
        epsilon=10**6,
        ledger=None,
        out="s.json",
    )
    assert made.statistic == pytest.approx((5.0,), abs=0.01)
    assert noisewise.load("s.json") == made
