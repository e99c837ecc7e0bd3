"""The privacy boundary as a fact of the process: the analyst's side runs where the curator's cannot
load.
"""

import subprocess
import sys
from pathlib import Path

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == "noisewise.curator" or name.split(".")[0] in ("duckdb", "opendp", "jax", "pandas", "polars", "pyarrow"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
"""  # noqa: E501


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_load_and_observe_work_without_the_curator(tmp_path: Path) -> None:
    code = (
        BLOCK
        + """
import noisewise
from noisewise import Bounds, families, noise, priors
made = noisewise.observe(family=families.Normal(), n=100, statistic=[30.7, 55.7], noise=noise.Laplace(scale=[3.0, 6.0]),
                         bounds=Bounds(-4, 4, outside="clamp"))
made.save(sys.argv[1])
assert noisewise.load(sys.argv[1]) == made
priors.Gamma(shape=2, rate=20)
try:
    noisewise.release
except ImportError as error:
    print("blocked:", error)
"""  # noqa: E501
    )
    assert "noisewise.curator is blocked" in run(code, str(tmp_path / "r.json"))


def test_importing_noisewise_loads_nothing_heavy() -> None:
    code = """
import sys, noisewise
heavy = {"numpy", "scipy", "duckdb", "opendp", "pydantic", "jax", "pandas"} & {name.split(".")[0] for name in sys.modules}
print(sorted(heavy), sorted(noisewise.__all__) == sorted(dir(noisewise)))
"""  # noqa: E501
    assert run(code).strip() == "[] True"


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys, contextlib, io
from noisewise.cli.main import run
with contextlib.redirect_stdout(io.StringIO()):
    status = run(["--help"])
print(status, sorted({"numpy", "scipy", "duckdb", "opendp", "jax"} & {name.split(".")[0] for name in sys.modules}))
"""  # noqa: E501
    assert run(code).strip() == "0 []"


def test_every_public_name_loads() -> None:
    import noisewise

    for name in noisewise.__all__:
        assert getattr(noisewise, name) is not None
