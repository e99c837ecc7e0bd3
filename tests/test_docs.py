"""Every command and every Python example of the README and of the site runs as printed."""

import re
import shlex
import shutil
import subprocess
import sys
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
    "CHANGELOG.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))),
]
NOT_CODE = {"json", "text"}
"""Kinds of blocks that nobody runs: files, and what commands print."""
OF_OTHERS = "py"
"""Code of tools that are not installed here; tests/test_other_tools.py runs it where they are."""
ELSEWHERE = {
    "make demo": "the demo needs a virtual environment of its own",
    "make test": "it is running",
    'export PATH="$PWD/.venv/bin:$PATH"': "the tests have noisewise in their path",
    "pip install 'noisewise[studio]'": "nothing is installed here",
    "noisewise studio examples": "until Ctrl-C; tests/studio opens it",
    "noisewise reproduce --out paper/": "a quarter of an hour; tests/study/test_reproduce.py",
}
"""What is not run here, and why not."""
FEW = {
    "audit": ["--runs", "500"],
    "calibrate": ["--trials", "20", "--n", "100"],
    "compare": ["--trials", "20", "--n", "100"],
    "plan": ["--trials", "3"],
}
"""Simulations are run with few trials, of one size."""


def blocks(text: str) -> list[tuple[str, str]]:
    """The kind and the content of each block."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """One by one, however many lines they take."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def execute(command: str) -> None:
    """As a shell would; a command whose comment says `refused` must be."""
    command, _, comment = (part.strip() for part in command.partition("  #"))
    if command in ELSEWHERE:
        return
    if command.startswith("noisewise "):
        words = shlex.split(command)[1:]
        assert run([*words, *FEW.get(words[0], [])]) == 2 * (comment == "refused"), command
    elif command.startswith(("printf ", "python ")):
        command = re.sub("^python ", f"{shlex.quote(sys.executable)} ", command)
        subprocess.run(command, shell=True, check=True)
    else:
        raise AssertionError(f"nothing runs this command: {command}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    Ledger(tmp_path / "budget.db").set_limit("visits-2026", pure(10))
    return tmp_path


def with_code(page: str) -> bool:
    return any(kind not in NOT_CODE for kind, _ in blocks((ROOT / page).read_text()))


@pytest.mark.parametrize("page", [page for page in PAGES if with_code(page)])
def test_every_command_and_every_python_example_runs(page: str, folder: Path) -> None:
    for kind, block in blocks((ROOT / page).read_text()):
        if kind == "bash":
            for command in commands(block):
                execute(command)
        elif kind == "python":
            exec(block, {"__name__": "example"})
        else:
            assert kind in NOT_CODE | {OF_OTHERS}, f"{page} has a block of the kind {kind!r}"


def test_what_no_test_knows_how_to_run_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nothing runs"):
        execute("curl somewhere")


def test_the_example_of_the_docstring_runs(folder: Path) -> None:
    shutil.copy("examples/visits.csv", "visits.csv")
    lines = re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", noisewise.release.__doc__ or "", re.MULTILINE)
    exec("\n".join(lines), {"noisewise": noisewise, "families": families, "Bounds": Bounds})


def test_the_smallest_family_of_the_guide_releases(folder: Path) -> None:
    (block,) = [
        b for kind, b in blocks((ROOT / "docs/own-family.md").read_text()) if kind == "python"
    ]
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
