"""Studies: the same numbers on any number of workers, resumed or not; methods judged as they
deserve.
"""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from noisewise import Bounds, families, priors
from noisewise.errors import NoisewiseError
from noisewise.study import calibrate, compare
from noisewise.study.reproduce import models
from noisewise.study.trials import simulate, uniforms

STUDY = {"n": [20, 50], "epsilon": [0.5], "methods": ["auto", "naive"], "trials": 1200}


def figures(found):
    return {(cell.key, target): u for (cell, target), u in found.uniforms.items()}


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


@pytest.fixture(scope="module")
def alone():
    return figures(calibrate(families.Bernoulli(), priors.Beta(2, 2), **STUDY))


@pytest.mark.parametrize("jobs", [2, 4])
def test_any_number_of_workers_gives_the_same_numbers(alone, jobs) -> None:
    assert same(
        figures(calibrate(families.Bernoulli(), priors.Beta(2, 2), jobs=jobs, **STUDY)), alone
    )


@pytest.mark.filterwarnings("ignore")  # of distributed itself
def test_a_dask_cluster_gives_the_same_numbers(alone) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        found = calibrate(
            families.Bernoulli(), priors.Beta(2, 2), dask=cluster.scheduler_address, **STUDY
        )
    assert same(figures(found), alone)


def test_killed_in_the_middle_and_resumed(alone, tmp_path) -> None:
    """No trial is lost, none is done twice, and the numbers are those of a run that was
    not killed.
    """
    folder = tmp_path / "study"
    code = (
        "import time\n"
        "from noisewise import families, priors\n"
        "from noisewise.study import calibrate\n"
        f"calibrate(families.Bernoulli(), priors.Beta(2, 2), folder={str(folder)!r}, report=lambda "
        f"*_: time.sleep(0.3), **{STUDY!r})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    chunks = folder / "chunks"
    for _ in range(600):
        if chunks.is_dir() and len(list(chunks.glob("[!.]*.json"))) >= 3:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = {file.name: file.stat().st_mtime_ns for file in chunks.glob("[!.]*.json")}
    assert 3 <= len(kept) < 12
    fresh = []
    found = calibrate(
        families.Bernoulli(),
        priors.Beta(2, 2),
        folder=folder,
        jobs=2,
        report=lambda cell, u: fresh.append((cell.key, len(u))),
        **STUDY,
    )
    assert same(figures(found), alone)
    assert len(fresh) == 12
    assert all((chunks / name).stat().st_mtime_ns == when for name, when in kept.items())


def test_a_folder_of_another_study_is_refused(tmp_path) -> None:
    calibrate(
        families.Bernoulli(),
        priors.Beta(2, 2),
        n=[5],
        epsilon=[1.0],
        trials=20,
        folder=tmp_path / "a",
    )
    with pytest.raises(NoisewiseError, match="another study"):
        calibrate(
            families.Bernoulli(),
            priors.Beta(2, 2),
            n=[6],
            epsilon=[1.0],
            trials=20,
            folder=tmp_path / "a",
        )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").write_text("mine")
    with pytest.raises(NoisewiseError, match="not empty"):
        calibrate(
            families.Bernoulli(),
            priors.Beta(2, 2),
            n=[6],
            epsilon=[1.0],
            trials=20,
            folder=tmp_path / "b",
        )


def test_a_cut_chunk_is_named(tmp_path) -> None:
    calibrate(
        families.Bernoulli(),
        priors.Beta(2, 2),
        n=[5],
        epsilon=[1.0],
        trials=20,
        folder=tmp_path / "a",
    )
    file = next((tmp_path / "a" / "chunks").iterdir())
    file.write_text(file.read_text()[:20])
    with pytest.raises(NoisewiseError, match="was cut"):
        calibrate(
            families.Bernoulli(),
            priors.Beta(2, 2),
            n=[5],
            epsilon=[1.0],
            trials=20,
            folder=tmp_path / "a",
        )


def test_naive_fails_and_auto_passes() -> None:
    found = calibrate(
        families.Exponential(),
        priors.Gamma(8, 2),
        n=[100],
        epsilon=[0.1],
        bounds=Bounds(0.01, 1.5, outside="redact"),
        methods=["auto", "naive", "non-private"],
        trials=4000,
    )
    verdicts = {row["method"]: row for row in found.table}
    assert verdicts["auto"]["passes"]
    assert verdicts["non-private"]["passes"]
    assert not verdicts["naive"]["passes"]
    assert "over-confident" in verdicts["naive"]["verdict"]
    assert json.loads(json.dumps(found.table)) == found.table


def test_gibbs_and_ops_are_judged_as_the_paper_judges_them() -> None:
    found = calibrate(
        families.Bernoulli(),
        priors.Beta(10, 10),
        n=[100],
        epsilon=[0.1],
        methods=["gibbs", "ops"],
        trials=500,
    )
    verdicts = {row["method"]: row for row in found.table}
    assert verdicts["gibbs"]["passes"]
    assert "under-confident" in verdicts["ops"]["verdict"]


def test_the_papers_own_bounds_hold_the_middle_of_each_population(rng) -> None:
    """In units of the upper bound: 95 % of records inside whatever theta, and a prior that was
    scaled along.
    """
    setting = models()["exponential, own bounds"][0]
    sample = simulate(
        type(setting)(setting.family, setting.prior, None, 10**5, 1e6, middle=0.95), 4, rng
    )
    low, high = sample.releases[0].bounds.lower, sample.releases[0].bounds.upper
    inside = np.exp(-sample.theta[:, 0] * low) - np.exp(-sample.theta[:, 0] * high)
    assert inside == pytest.approx(0.95)
    u = uniforms(
        type(setting)(setting.family, setting.prior, None, 50, 1.0, middle=0.95),
        400,
        rng,
        "non-private",
    )["rate"]
    assert abs(u.mean() - 0.5) < 4.5 / np.sqrt(12 * 400)


def test_comparison_is_of_the_same_records_and_moves_with_epsilon() -> None:
    found = compare(
        families.Bernoulli(),
        priors.Beta(10, 10),
        n=[100],
        epsilon=[0.1, 10.0],
        methods=["auto", "naive", "non-private"],
        trials=60,
        size=500,
    )
    rows = {(row["epsilon"], row["method"]): row for row in found.table}
    assert rows[0.1, "auto"]["error_non_private"] == rows[0.1, "naive"]["error_non_private"]
    assert rows[0.1, "auto"]["mmd2"] > 10 * rows[10.0, "auto"]["mmd2"]
    assert rows[0.1, "auto"]["width_ratio"] > 1.5
    assert rows[10.0, "auto"]["width_ratio"] == pytest.approx(1.0, abs=0.02)
    assert abs(rows[0.1, "non-private"]["mmd2"]) < 4 * rows[0.1, "non-private"]["mmd2_mcse"]


def test_a_family_of_ones_own() -> None:
    """`calibrate` from Python for a family that the user wrote."""

    class Waiting(families.Exponential):
        kind = "waiting"

    found = calibrate(
        Waiting(),
        priors.Gamma(8, 2),
        n=[50],
        epsilon=[1.0],
        bounds=Bounds(0.01, 1.5, outside="clamp"),
        trials=1000,
        jobs=2,
    )
    assert found.table[0]["family"] == "waiting"
    assert found.table[0]["passes"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 0}, "at least one trial"),
        ({"epsilon": [-1.0]}, "epsilon must be positive"),
        ({"n": [0]}, "n must be at least 1"),
        ({"n": []}, "at least one n"),
        ({"methods": ["magic"]}, "unknown method"),
        ({"methods": ["ops"]}, "ops serves the bernoulli"),
        (
            {"methods": ["gibbs-paper"], "bounds": Bounds(0.1, 1.0, outside="clamp")},
            "knows redacted records only",
        ),
        ({"n": [10**12]}, "takes too long to simulate"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"dask": "tcp://127.0.0.1:9"}, "no Dask scheduler"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_bad_input(change, words) -> None:
    asked = {
        "n": [5],
        "epsilon": [1.0],
        "trials": 10,
        "bounds": Bounds(0.1, 1.0, outside="redact"),
    } | change
    with pytest.raises(NoisewiseError, match=words):
        calibrate(families.Exponential(), priors.Gamma(2, 2), **asked)


def test_a_prior_so_extreme_that_truths_round_to_an_edge_is_refused() -> None:
    with pytest.raises(NoisewiseError, match="rounds to it"):
        calibrate(families.Bernoulli(), priors.Beta(0.01, 0.01), n=[5], epsilon=[1.0], trials=300)


def test_a_setting_given_twice_counts_once() -> None:
    found = calibrate(
        families.Bernoulli(),
        priors.Beta(2, 2),
        n=[5, 5],
        epsilon=[1.0, 1.0],
        methods=["auto", "auto"],
        trials=20,
    )
    assert len(found.table) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 1}, "at least 2 draws"),
        ({"trials": 1}, "at least 2 trials"),
        ({"methods": ["ops"]}, "100 draws"),
    ],
)
def test_comparisons_that_cannot_be(change, words, tmp_path) -> None:
    asked = {"n": [5], "epsilon": [1.0], "trials": 4, "folder": tmp_path / "cost"} | change
    with pytest.raises(NoisewiseError, match=words):
        compare(families.Bernoulli(), priors.Beta(2, 2), **asked)
    assert not (tmp_path / "cost").exists()


def test_a_prior_of_ones_own_survives_the_way_to_a_worker() -> None:
    code = (
        "import pickle\n"
        "import cloudpickle\n"
        "from noisewise.model.priors import Prior\n"
        "class Mine(Prior):\n"
        "    kind, positive = 'mine', ()\n"
        "    def log_density(self, theta): ...\n"
        "    def draw(self, rng, size): ...\n"
        "print(type(pickle.loads(cloudpickle.dumps(Mine()))).__name__)\n"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "Mine\n"
    )


def test_a_cut_first_write_leaves_the_folder_usable(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".study.json.123").write_text("{")
    found = calibrate(
        families.Bernoulli(),
        priors.Beta(2, 2),
        n=[5],
        epsilon=[1.0],
        trials=20,
        folder=tmp_path / "a",
    )
    (row,) = found.table
    assert (row["n"], row["epsilon"], row["trials"]) == (5, 1.0, 20)
