"""Build the sdist and from it the wheel, and try the wheel as somebody new would: in an empty
environment, from an empty folder, with the commands and the Python example that the README prints.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEW_HERE = re.compile(r"^(make|export) .*\n", re.MULTILINE)
"""Commands that need the repository, or set up what is set up here."""


def built() -> Path:
    """The wheel, beside the sdist that it is made from, in dist/."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", str(ROOT / "dist"), str(ROOT)], ROOT)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    return wheel


def run(command: list[str], where: Path, **variables: str) -> str:
    """What it prints; if it fails, so does this, and shows it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=where,
        env=clean | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nThis failed: {' '.join(command)}")
    return done.stdout


def blocks(kind: str) -> str:
    """All blocks of a kind in the README, as one script."""
    text = (ROOT / "README.md").read_text()
    return "\n".join(re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


def tried(wheel: Path, folder: Path) -> None:
    """The README's examples, in an environment that has this wheel and what it needs, no more."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    run([str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel)], folder)
    empty = folder / "empty"
    (empty / "examples").mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "visits.csv", empty / "examples")
    commands, example = NEW_HERE.sub("", blocks("bash")), blocks("python")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    print(run(["bash", "-euxo", "pipefail", "-c", commands], empty, PATH=path))
    print(run([str(programs / "python"), "-c", example], empty, PATH=path))
    made = {one.name for one in empty.glob("*.json")}
    if made != {"wait.release.json", "wait-again.release.json"}:
        raise SystemExit(f"The README's example made {sorted(made)}.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        tried(found := built(), Path(temporary))
    print(f"{found.relative_to(ROOT)} works in an empty environment.")
