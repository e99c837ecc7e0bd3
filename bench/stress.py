"""400 random problems of every one-column family against a slow integration of its own (the folder
slow).

Run: python bench/stress.py --cache FOLDER [--only 17] [--seed 0] [--problems 400] [--oracle-only]

For each problem: the largest distance between the distribution functions of the library and of the
oracle, whether the certificate warned, the CPU seconds of `infer`, and what went wrong. The
oracle's answers are kept in the cache, one file for each problem, and not computed again; the
library's are computed every time. The problems depend on the seed alone. The library runs in a
process of its own, which is ended and started again where it takes longer than --patience seconds.
"""

import argparse
import hashlib
import json
import math
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import slow
from problems import KINDS, draw_problem, kind_of, title
from slow import Answer, Marginal, Problem

VERSION = 4
"""Of the oracle: a change of its answers makes older files of the cache stale."""
LEVELS = np.concatenate([[0.002, 0.01], np.arange(0.02, 0.99, 0.02), [0.99, 0.998]])
OFF, UNSURE, SLOW = 0.02, 0.003, 3.0
"""A distance that counts as wrong, an oracle's error beyond which it is not heard, and CPU seconds
that count as slow.
"""


def digest(problem: Problem) -> str:
    text = json.dumps(problem, sort_keys=True) + f" version {VERSION}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Held:
    """The oracle's answer as the cache holds it."""

    answer: Answer
    moments: dict[str, tuple[float, float]]
    seconds: float


def solve(problem: Problem, cache: Path, again: bool) -> Held:
    """The oracle's posterior, from the cache where it is there."""
    file = cache / f"{digest(problem)}.npz"
    if again or not file.exists():
        start = time.process_time()
        found = slow.solve(problem)
        seconds = time.process_time() - start
        arrays: dict[str, Any] = {
            "names": np.array(list(found.marginals)),
            "error": found.error,
            "seconds": seconds,
        }
        for i, marginal in enumerate(found.marginals.values()):
            thin = thinned(marginal)
            arrays |= {
                f"theta{i}": thin.theta,
                f"cdf{i}": thin.cdf,
                f"moments{i}": np.array(marginal.moments()),
            }
        np.savez_compressed(file, **arrays)
    held = np.load(file)
    names = [str(name) for name in held["names"]]
    marginals = {name: Marginal(held[f"theta{i}"], held[f"cdf{i}"]) for i, name in enumerate(names)}
    moments = {
        name: tuple(held[f"moments{i}"]) for i, name in enumerate(names) if f"moments{i}" in held
    }
    return Held(Answer(marginals, float(held["error"])), moments, float(held["seconds"]))


def thinned(marginal: Marginal) -> Marginal:
    """The points between which neither the probability nor the place changes much."""
    keep = np.zeros(len(marginal.theta), dtype=bool)
    keep[[0, -1]] = True
    keep[np.searchsorted(marginal.cdf, np.linspace(0, 1, 1500)).clip(0, len(keep) - 1)] = True
    keep[
        np.searchsorted(marginal.cdf, np.linspace(0, 1, 1500), side="right").clip(1, len(keep)) - 1
    ] = True
    return Marginal(marginal.theta[keep], marginal.cdf[keep])


def build(problem: Problem) -> tuple[Any, Any, Any]:
    """The release, its prior and the prior of n, as objects of the library."""
    import noisewise
    from noisewise import Bounds, NoisyCount, families, noise, priors

    def noise_of(held: Problem) -> Any:
        make = {
            "laplace": noise.Laplace,
            "discrete_laplace": noise.DiscreteLaplace,
            "gaussian": noise.Gaussian,
            "discrete_gaussian": noise.DiscreteGaussian,
        }[held["kind"]]
        return make(held["scale"], held["step"]) if "step" in held else make(held["scale"])

    def prior_of(held: Problem) -> Any:
        make = {
            "beta": priors.Beta,
            "gamma": priors.Gamma,
            "normal": priors.Normal,
            "inverse_gamma": priors.InverseGamma,
            "normal_inverse_gamma": priors.NormalInverseGamma,
            "dirichlet": priors.Dirichlet,
        }[held["kind"]]
        return make(**{k: v for k, v in held.items() if k != "kind"})

    held = problem["family"]
    if held["kind"] == "normal":
        family: Any = families.Normal(
            **{k: v for k, v in held.items() if k in ("mean", "variance")}
        )
    elif held["kind"] == "categorical":
        family = families.Categorical(held["k"])
    else:
        names = {
            "bernoulli": "Bernoulli",
            "poisson": "Poisson",
            "geometric": "Geometric",
            "exponential": "Exponential",
            "gamma": "Gamma",
        }
        family = getattr(families, names[held["kind"]])(
            **{k: v for k, v in held.items() if k != "kind"}
        )
    bounds, count = problem["bounds"], problem["count"]
    release = noisewise.observe(
        family=family,
        n=problem["n"],
        count=None if count is None else NoisyCount(count["value"], noise_of(count["noise"])),
        statistic=problem["statistic"],
        noise=noise_of(problem["noise"]),
        bounds=None if bounds is None else Bounds(bounds[0], bounds[1], outside=bounds[2]),
        coordinates=problem["coordinates"],
    )
    return (
        release,
        prior_of(problem["prior"]),
        None if problem["n_prior"] is None else prior_of(problem["n_prior"]),
    )


def run_library(problem: Problem) -> dict[str, Any]:
    """Everything that the comparison needs of the library's posterior, as plain numbers."""
    import noisewise

    release, prior, n_prior = build(problem)
    start = time.process_time()
    posterior = noisewise.infer(release, prior, n_prior=n_prior, seed=1)
    rows = [dict(row) for row in posterior.summary() if row["name"] not in posterior.derived]
    warnings = list(posterior.certificate.warnings)
    seconds = time.process_time() - start
    quantiles: dict[str, list[float]] = {}
    for name in posterior.names:
        values = np.asarray(posterior.quantile(name, LEVELS))
        if values.ndim == 1:
            quantiles[name] = values.tolist()
        else:
            quantiles |= {f"{name}[{j}]": values[:, j].tolist() for j in range(values.shape[1])}
    return {
        "quantiles": quantiles,
        "summary": rows,
        "warnings": warnings,
        "seconds": seconds,
        "method": posterior.method,
    }


def work() -> None:
    """Answer problems from standard input, a line each."""
    warm = {
        "family": {"kind": "bernoulli"},
        "prior": {"kind": "beta", "alpha": 1.0, "beta": 1.0},
        "n": 50,
        "count": None,
    }
    warm |= {"n_prior": None, "bounds": None, "coordinates": "plain", "statistic": [20.0]}
    run_library(warm | {"noise": {"kind": "laplace", "scale": [2.0]}})
    both = {
        "kind": "normal_inverse_gamma",
        "mean": 0.0,
        "strength": 1.0,
        "shape": 3.0,
        "scale": 3.0,
    }
    warm |= {
        "family": {"kind": "normal", "unknown": "both"},
        "prior": both,
        "bounds": (-3.0, 3.0, "clamp"),
        "statistic": [2.0, 40.0],
    }
    run_library(warm | {"noise": {"kind": "laplace", "scale": [2.0, 2.0]}})
    for line in sys.stdin:
        try:
            out = run_library(json.loads(line))
        except Exception as error:  # whatever it is, it is the finding
            out = {"error": f"{type(error).__name__}: {error}"}
        print("ANSWER " + json.dumps(out), flush=True)


class Library:
    """The library in a process of its own."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.process: subprocess.Popen[str] | None = None

    def ask(self, problem: Problem) -> dict[str, Any]:
        if self.process is None:
            command = [sys.executable, str(HERE / "stress.py"), "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(problem) + "\n")
        self.process.stdin.flush()
        end = time.monotonic() + self.patience
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            if not ready:
                break
            line = self.process.stdout.readline()
            if line.startswith("ANSWER "):
                return dict(json.loads(line[7:]))
            if not line:
                self.close()
                return {"error": "the process died"}
        self.close()
        return {"error": f"no answer within {self.patience:g} s"}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def distance(found: Answer, quantiles: dict[str, list[float]]) -> tuple[float, str]:
    """The largest |F(oracle) - F(library)| over the library's own quantiles, and where it is."""
    worst, where = 0.0, ""
    for name, marginal in found.marginals.items():
        values = np.array(
            [math.nan if v is None else v for v in quantiles.get(name, [math.nan] * len(LEVELS))],
            dtype=float,
        )
        low, high = marginal.probability(values)
        gap = np.maximum(np.maximum(LEVELS - high, low - LEVELS), 0.0)
        gap = np.where(np.isfinite(values), gap, 1.0)
        if gap.max() > worst:
            i = int(gap.argmax())
            middle = marginal.quantile(np.array([0.05, 0.5, 0.95]))
            ours = [values[int(np.abs(LEVELS - q).argmin())] for q in (0.05, 0.5, 0.95)]
            worst = float(gap[i])
            where = (
                "{}: oracle 5/50/95 % {:.6g} {:.6g} {:.6g}, library {:.6g} {:.6g} {:.6g}".format(
                    name, *middle, *ours
                )
            )
    return worst, where


def figures_finite(out: dict[str, Any]) -> bool:
    """Every number in the summary is finite, or said to be none."""
    for row in out["summary"]:
        for key, value in row.items():
            if (
                key != "name"
                and value is not None
                and not (isinstance(value, str) or math.isfinite(value))
            ):
                return False
    return all(
        v is not None and math.isfinite(v) for values in out["quantiles"].values() for v in values
    )


def moments_off(problem: Problem, held: Held, out: dict[str, Any]) -> float:
    """How far the reported mean is from the oracle's, in sds, and the log ratio of the sds; where
    both surely exist.
    """
    if (
        problem["prior"]["kind"] in ("inverse_gamma", "normal_inverse_gamma")
        and problem["prior"]["shape"] < 3
    ):
        return 0.0
    worst = 0.0
    for row in out["summary"]:
        mean, sd = held.moments.get(row["name"], (math.nan, math.nan))
        if row.get("mean") is not None and row.get("sd") is not None and sd > 1e-9 * abs(mean):
            worst = max(
                worst, abs(row["mean"] - mean) / sd, abs(math.log(max(row["sd"], 1e-300) / sd))
            )
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, help="a folder for the oracle's answers")
    parser.add_argument(
        "--only", type=int, action="append", help="this problem alone; may be given more than once"
    )
    parser.add_argument("--kind", choices=KINDS, help="problems of this kind alone")
    parser.add_argument("--problems", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--patience",
        type=float,
        default=120.0,
        help="seconds to wait for the library, for each problem",
    )
    parser.add_argument("--oracle-only", action="store_true")
    parser.add_argument("--again", action="store_true", help="compute the oracle anew")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
        return 0
    if arguments.cache is None:
        parser.error("--cache FOLDER is needed")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    numbers = arguments.only or list(range(arguments.problems))
    library = Library(arguments.patience)
    results = []
    try:
        for number in numbers:
            problem = draw_problem(arguments.seed, number)
            if arguments.kind and kind_of(problem) != arguments.kind:
                continue
            results.append(one(number, problem, library, arguments))
    finally:
        library.close()
    summarise([r for r in results if r])
    return 0


def one(
    number: int, problem: Problem, library: Library, arguments: argparse.Namespace
) -> dict[str, Any] | None:
    """Solve one problem both ways and print its line."""
    try:
        held = solve(problem, arguments.cache, arguments.again)
    except Exception as error:  # an oracle that fails is said to have failed, and the rest goes on
        print(
            f"{number:3d} the oracle failed: {type(error).__name__}: {error}  {title(problem)}",
            flush=True,
        )
        return {"number": number, "verdict": "oracle failed", "seconds": 0.0, "warned": False}
    found = held.answer
    print(
        f"{number:3d} oracle {held.seconds:.1f} s, its error {found.error:.1e}",
        file=sys.stderr,
        flush=True,
    )
    if arguments.oracle_only:
        return None
    out = library.ask(problem)
    row: dict[str, Any] = {
        "number": number,
        "seconds": out.get("seconds", math.nan),
        "warned": bool(out.get("warnings")),
    }
    if "error" in out:
        verdict, gap, where = "ERROR", math.nan, out["error"]
    else:
        gap, where = distance(found, out["quantiles"])
        verdict = "ok"
        if not figures_finite(out):
            verdict = "NOT FINITE"
        elif found.error > UNSURE:
            verdict = "oracle unsure"
        elif gap > OFF:
            verdict = "off, warned" if row["warned"] else "OFF"
        elif (moments := moments_off(problem, held, out)) > 0.1:
            verdict, where = "MOMENTS", f"mean or sd off by {moments:.3g}"
    row |= {"verdict": verdict, "distance": gap}
    warned = "warned" if row["warned"] else "-"
    line = (
        f"{number:3d} {verdict:13s} distance {gap:.4f} (oracle {found.error:.0e}) {warned:6s} "
        f"{row['seconds']:6.2f} s"
    )
    print(f"{line}  {title(problem)}", flush=True)
    if verdict not in ("ok", "oracle unsure"):
        print(f"      {where}", flush=True)
    return row


def summarise(rows: list[dict[str, Any]]) -> None:
    def count(verdict: str) -> list[int]:
        return [row["number"] for row in rows if row["verdict"] == verdict]

    print(f"\n{len(rows)} problems")
    for verdict, said in (
        ("OFF", f"off by more than {OFF} without a warning"),
        ("off, warned", f"off by more than {OFF} with a warning"),
        ("NOT FINITE", "with a figure that is not finite"),
        ("ERROR", "with an error or no answer"),
        ("MOMENTS", "with a right distribution, but a mean or sd off by more than 0.1 sd"),
        ("oracle unsure", f"not judged: the oracle's own error is above {UNSURE}"),
        ("oracle failed", "not judged: the oracle failed"),
    ):
        numbers = count(verdict)
        print(f"{len(numbers):4d} {said}: {' '.join(map(str, numbers))}")
    slow = [row["number"] for row in rows if row["seconds"] > SLOW]
    print(f"{len(slow):4d} above {SLOW:g} s of CPU: {' '.join(map(str, slow))}")
    print(f"{sum(row['warned'] for row in rows):4d} warn")


if __name__ == "__main__":
    sys.exit(main())
