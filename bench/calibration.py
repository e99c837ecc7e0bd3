"""Is `auto` calibrated? 4000 simulated trials a setting; one line for each, with a verdict.

For every setting the KS statistic of U against uniform must be below 0.031 (99.9 %), or that of a repeat with a fresh
seed below 0.0258 (99 %); and with z = Phi^-1(U), |mean z| sqrt(N) and |mean z^2 - 1| sqrt(N/2) below 4.5.

Run: python bench/calibration.py [--jobs 2] [--only poisson]. Stop it and start it again: finished chunks are kept in
bench/data/calibration and not done again.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy import special, stats

from noisewise import Bounds, families, priors
from noisewise.study.trials import Setting, uniforms

TRIALS, CHUNK = 4000, 500
FOLDER = Path(__file__).parent / "data" / "calibration"
KS, KS_AGAIN, Z = 0.031, 0.0258, 4.5


def settings() -> list[Setting]:
    out = []
    for prior in (priors.Beta(10, 10), priors.Beta(1, 1), priors.Beta(1, 20)):
        for n in (1, 10, 100, 1000, 10**6):
            out += [Setting(families.Bernoulli(), prior, None, n, e) for e in (0.01, 0.1, 1.0, 5.0)]
    gamma = priors.Gamma(8, 2)
    # The prior predictive of x is Lomax: P(x > t) = (1 + t/2)^-8.
    low, high = (2 * ((1 - q) ** (-1 / 8) - 1) for q in (0.025, 0.975))
    for outside in ("redact", "clamp"):
        for n in (1, 10, 100, 1000):
            out += [Setting(families.Exponential(), gamma, Bounds(low, high, outside=outside), n, e) for e in (0.1, 1.0, 10.0)]
    one_parameter = (
        (families.Poisson(), priors.Gamma(4, 2), (0, 6)),
        (families.Geometric(), priors.Beta(4, 6), (1, 8)),
        (families.Gamma(shape=2.5), priors.Gamma(9, 4), (0.1, 3.5)),
        (families.Normal(variance=1.0), priors.Normal(0.0, 1.0), (-3, 3)),
        (families.Normal(mean=0.0), priors.InverseGamma(4.0, 3.0), (-3, 3)),
    )
    for family, prior, bounds in one_parameter:
        for outside in ("clamp", "redact"):
            for n in (10, 100, 1000):
                out += [Setting(family, prior, Bounds(*bounds, outside=outside), n, e) for e in (0.5, 2.0, 8.0)]
    for k in (3, 20):
        for concentration in (2.0, 0.3):
            prior = priors.Dirichlet([concentration] * k)
            for n in (10, 100, 1000):
                out += [Setting(families.Categorical(k), prior, None, n, e) for e in (0.5, 2.0, 8.0)]
    both = priors.NormalInverseGamma(0.0, 2.0, 4.0, 3.0)
    for n in (1000, 100, 10):
        out += [Setting(families.Normal(), both, Bounds(-3, 3, outside="clamp"), n, e) for e in (0.5, 2.0, 8.0)]
        out.append(Setting(families.Normal(), both, Bounds(-5, 5, outside="redact"), n, 2.0))
    return out


def title(s: Setting) -> str:
    bounds = "" if s.bounds is None else f" {s.bounds.outside} [{s.bounds.lower:.3g}, {s.bounds.upper:.3g}]"
    prior = str(s.prior) if s.family.kind != "categorical" else f"Dirichlet({s.prior.concentration[0]:g} x {s.family.dimension})"
    known = [f"{key} {value:g}" for key, value in s.family.describe().items() if isinstance(value, float)]
    return f"{' '.join([s.family.kind, *known])} ~ {prior}{bounds} n={s.n} eps={s.epsilon:g}"


def chunk(s: Setting, seed: int, index: int) -> dict[str, list[float]]:
    file = FOLDER / f"{hashlib.sha256(title(s).encode()).hexdigest()[:16]}-{seed}-{index}.json"
    if file.exists():
        return json.loads(file.read_text())
    rng = np.random.default_rng([int(hashlib.sha256(title(s).encode()).hexdigest()[:8], 16), seed, index])
    found = {name: list(map(float, u)) for name, u in uniforms(s, CHUNK, rng).items()}
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(found))
    partial.rename(file)
    return found


def figures(u: np.ndarray) -> tuple[float, float, float]:
    z = special.ndtri(np.clip(u, 1e-15, 1 - 1e-15))
    return stats.kstest(u, "uniform").statistic, z.mean() * np.sqrt(u.size), ((z**2).mean() - 1) * np.sqrt(u.size / 2)


def whole(s: Setting, seed: int) -> dict[str, np.ndarray]:
    parts = [chunk(s, seed, index) for index in range(TRIALS // CHUNK)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def verdict(s: Setting, again: bool) -> list[tuple[str, str]]:
    """(line, what is to be done: "pass", "again" or "FAIL")."""
    out = []
    first, second = whole(s, 0), whole(s, 1) if again else None
    for name, u in first.items():
        ks, z1, z2 = figures(u)
        tails = abs(z1) < Z and abs(z2) < Z
        line = f"{title(s):100s} {name:12s} KS {ks:.4f}  z {z1:+.2f}  z2 {z2:+.2f}"
        if ks < KS and tails:
            out.append((line, "pass"))
        elif second is None:
            out.append((line, "again"))
        else:
            ks2, y1, y2 = figures(second[name])
            good = ks2 < KS_AGAIN and (tails or (abs(y1) < Z and abs(y2) < Z))
            out.append((f"{line}  repeat: KS {ks2:.4f} z {y1:+.2f} z2 {y2:+.2f}", "pass" if good and tails else "FAIL"))
    return out


def run(todo: list[tuple[Setting, int, int]], jobs: int, label: str) -> None:
    with (
        Progress(TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=None) as bar,
        ProcessPoolExecutor(jobs) as pool,
    ):
        task = bar.add_task(label, total=len(todo))
        for future in as_completed([pool.submit(chunk, *work) for work in todo]):
            future.result()
            bar.advance(task)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="settings whose title contains this")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = [s for s in settings() if arguments.only in title(s)]
    start = time.perf_counter()
    run([(s, 0, i) for s in chosen for i in range(TRIALS // CHUNK)], arguments.jobs, f"{len(chosen)} settings")
    repeat = [s for s in chosen if any(state == "again" for _, state in verdict(s, False))]
    if repeat:
        run([(s, 1, i) for s in repeat for i in range(TRIALS // CHUNK)], arguments.jobs, f"{len(repeat)} repeats")
    lines = [line for s in chosen for line in verdict(s, s in repeat)]
    for line, state in lines:
        print(f"{line}  {state}")
    failed = sum(state == "FAIL" for _, state in lines)
    minutes = (time.perf_counter() - start) / 60
    print(f"{len(lines)} lines, {failed} failed, {len(repeat)} settings repeated, {minutes:.1f} minutes this time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
