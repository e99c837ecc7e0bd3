"""A user's own family, as documented: it releases in every form, and the parts it supplies pass the
families' tests.
"""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import noisewise
from cases import Case
from noisewise import Bounds, families, noise, priors
from noisewise.artifact import parse
from noisewise.curator.ledger import Ledger
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import pure
from noisewise.model.moments import interval_moments
from tables import exact_sums

EXAMPLE = Path(__file__).parents[1] / "examples" / "rayleigh.py"
spec = importlib.util.spec_from_file_location("rayleigh", EXAMPLE)
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
RAYLEIGH = Case(module.Rayleigh(), priors.InverseGamma(5.0, 8.0), ((0, 4), (1, 9)))


def test_the_example_runs_as_printed() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    made = parse(done.stdout)
    assert made.family == RAYLEIGH.family
    # The sum of 500 squares with mean 2v = 4 is 2000 +- 89, less what 8 m clamps; the noise has
    # scale 64/0.5.
    assert abs(made.statistic[0] - 2000) < 8 * 89 + 30 * 128


@pytest.mark.parametrize("outside", ["redact", "clamp"])
def test_it_gets_the_provable_sensitivity_and_a_file(outside: str, tmp_path: Path) -> None:
    import pandas as pd

    bounds = Bounds(1, 8, outside=outside)  # type: ignore[arg-type]
    lattice = lattice_for(RAYLEIGH.family, bounds)
    assert lattice.sensitivity.pair.l1 * lattice.step[0] == pytest.approx(
        64 if outside == "redact" else 63, rel=1e-5
    )
    frame = pd.DataFrame({"x": [0.5, 1.0, 2.0, None, 9.0, np.inf, -1.0]})
    n, (total,) = exact_sums(frame, lattice)[0]
    squares = 1 + 4 if outside == "redact" else 1 + 1 + 4 + 4.5**2 + 64 + 64 + 1
    assert n == 7
    assert (total + 7 * lattice.offset[0]) * lattice.step[0] == pytest.approx(
        squares, abs=7 * lattice.step[0]
    )
    made = noisewise.release(
        frame, column="x", family=RAYLEIGH.family, bounds=bounds, epsilon=1, ledger=None
    )
    made.save(tmp_path / "r.json")
    assert noisewise.load(tmp_path / "r.json") == made


def test_its_parts_pass_the_tests_of_the_built_in_families(rng: np.random.Generator) -> None:
    sys.path.insert(0, str(Path(__file__).parent / "model"))
    import test_families as built_in

    for check in (
        built_in.test_density_integrates_to_one_and_gives_the_mean_and_covariance,
        built_in.test_moments_are_derivatives_of_the_log_partition,
        built_in.test_cdf_is_the_integral_of_the_density,
        built_in.test_simulated_records_follow_the_cdf,
        built_in.test_conjugate_update_is_prior_times_likelihood,
    ):
        check(RAYLEIGH, rng)
    # falls to quadrature
    assert np.isfinite(
        interval_moments(RAYLEIGH.family, RAYLEIGH.theta(rng), 0, 4).covariance
    ).all()
    with pytest.raises(UnsupportedCombination, match="`log_probability`"):
        interval_moments(RAYLEIGH.family, RAYLEIGH.theta(rng), 0, 4, "autodiff")


def test_a_file_of_an_unknown_family_says_what_to_do(tmp_path: Path) -> None:
    made = noisewise.observe(
        family=RAYLEIGH.family,
        n=3,
        statistic=2.0,
        noise=noisewise.noise.Laplace(1.0),
        bounds=Bounds(0, 8, outside="clamp"),
    )
    made.save(tmp_path / "r.json")
    code = (
        "import noisewise, sys\ntry: noisewise.load(sys.argv[1])\nexcept ValueError as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r.json")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "import its module first" in done.stdout


def family_with(statistic):  # type: ignore[no-untyped-def]
    return type(
        "Own", (families.Family,), {"kind": "own", "support": (0.0, np.inf), "statistic": statistic}
    )()


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (lambda self, x, xp=np: x * x, "must return a tuple"),
        (lambda self, x, xp=np: (np.log1p(x),), "does not run in the database"),
        (lambda self, x, xp=np: (xp.sin(x),), "does not run in the database"),
        (lambda self, x, xp=np: ((x > 3) * 1.0,), "does not run in the database"),
        (lambda self, x, xp=np: (0 * x,), "spans 0"),
    ],
)
def test_a_statistic_that_cannot_serve_says_why_and_costs_nothing(
    statistic, message: str, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    import pandas as pd

    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(1))
    frame, bounds = pd.DataFrame({"x": [1.0]}), Bounds(0, 9, outside="clamp")
    with pytest.raises(UnsupportedCombination, match=message):
        noisewise.release(
            frame,
            column="x",
            family=family_with(statistic),
            bounds=bounds,
            epsilon=1,
            ledger=book.path,
            dataset="d",
        )
    assert book.accounts()[0].spent == 0


def test_a_class_without_kind_or_support_is_refused_where_it_is_defined() -> None:
    parts = {"kind": "partial", "support": (0.0, 1.0), "statistic": lambda self, x, xp=np: (x,)}
    for part in ("kind", "support"):
        with pytest.raises(TypeError, match=f"needs `{part}`"):
            type(
                "Partial",
                (families.Family,),
                {name: value for name, value in parts.items() if name != part},
            )


class Awkward(families.Family):
    """Every function a statistic may use, on bounds where each of them is undefined."""

    kind = "awkward"
    support = (0.0, np.inf)

    def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
        return xp.log(x), 1 / x, xp.sqrt(x - 1), xp.exp(50 * x), xp.abs(x - 2)


@pytest.mark.parametrize("outside", ["redact", "clamp"])
def test_undefined_statistics_raise_nothing(outside: str) -> None:
    import pandas as pd

    lattice = lattice_for(Awkward(), Bounds(0, 9, outside=outside))  # type: ignore[arg-type]
    column = pd.DataFrame({"x": [0.0, -0.0, 0.5, 1.0, 3.0, 9.0, None, np.inf, -np.inf, 5e-324]})
    with np.errstate(all="ignore"):
        parts = [int(part.sum()) for part in lattice.integers(column["x"].to_numpy())]
    n, sums = exact_sums(column, lattice)[0]
    assert n == 10
    # log and exp may differ by an ulp between engines: at most one lattice step a record.
    assert all(abs(a - b) <= 10 for a, b in zip(sums, parts, strict=True))


def test_inference_with_every_method_that_its_parts_allow() -> None:
    """The Rayleigh family: exact and collapsed agree at n = 5000, gibbs is near; and against the
    conjugate posterior at little noise.
    """
    release = noisewise.observe(
        family=RAYLEIGH.family,
        n=5000,
        statistic=20_000.0,
        noise=noise.Laplace(1.0),
        bounds=Bounds(0, 40, outside="clamp"),
    )
    exact = noisewise.infer(release, RAYLEIGH.prior, seed=1)
    assert exact.method == "exact"
    wanted = RAYLEIGH.family.update(RAYLEIGH.prior, np.array([[20_000.0]]), 5000)  # inverse gamma
    mean = wanted.scale[0] / (wanted.shape - 1)
    sd = mean / np.sqrt(wanted.shape - 2)
    assert exact.mean("v") == pytest.approx(mean, abs=0.02 * sd)
    assert exact.sd("v") == pytest.approx(sd, rel=0.01)
    for method in ("collapsed", "gibbs", "naive"):
        posterior = noisewise.infer(release, RAYLEIGH.prior, method=method, seed=1)
        assert posterior.mean("v") == pytest.approx(mean, abs=0.1 * sd)
        assert posterior.sd("v") == pytest.approx(sd, rel=0.1)


def test_a_missing_part_is_named() -> None:
    @dataclass(frozen=True)
    class Bare(families.Family):
        kind: ClassVar[str] = "bare-inference"
        support: ClassVar = (0.0, np.inf)
        parameters: ClassVar = (families.Parameter("v", 0, np.inf),)
        prior: ClassVar = priors.InverseGamma

        def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
            return (x * x,)

    release = noisewise.observe(
        family=Bare(),
        n=50,
        statistic=100.0,
        noise=noise.Laplace(1.0),
        bounds=Bounds(0, 8, outside="clamp"),
    )
    for method, part in (
        ("auto", "natural"),
        ("exact", "natural"),
        ("gibbs", "mean"),
        ("naive", "update"),
    ):
        with pytest.raises(UnsupportedCombination, match=f"does not supply `{part}`"):
            noisewise.infer(release, priors.InverseGamma(3, 3), method=method)
