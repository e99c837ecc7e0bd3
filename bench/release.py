"""Speed and memory of a release, as ratios measured in one run. Run: make bench

1. The normal model's lattice statistics against DuckDB's own floating-point sums of the same
   clamped values.
2. Peak memory at 2 and at 20 million rows.
3. A release of 200 records in memory against opening a DuckDB database, the price that it does not
   pay each time.
4. `noisewise --help` against `python -c "import numpy"`.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

DATA = Path(__file__).parent / "data"
LOWER, UPPER = 20.0, 80.0


def make_rows(rows: int) -> Path:
    """A Parquet file of `rows` normal-like numbers, a few of them missing."""
    path = DATA / f"rows{rows}.parquet"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        value = (
            "CASE WHEN random() < 0.001 THEN NULL ELSE (random() + random() + random() + "
            "random() - 2) * 30 + 50 END"
        )
        duckdb.connect().execute(f"COPY (SELECT {value} AS x FROM range({rows})) TO '{path}'")
    return path


def lattice_sums(path: Path) -> None:
    from noisewise import Bounds, families
    from noisewise.curator.reading import Reading
    from noisewise.curator.sums import Held
    from noisewise.mechanism.lattice import lattice_for

    lattice = lattice_for(families.Normal(), Bounds(LOWER, UPPER, outside="clamp"))
    Held.open(path, Reading("x")).sums(lattice)


def plain_sums(path: Path) -> None:
    clip = f"least(greatest(x, {LOWER}), {UPPER})"
    duckdb.connect().execute(f"SELECT sum({clip}), sum({clip} * {clip}) FROM '{path}'").fetchall()


def interleaved(
    first: Callable[[], object], second: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Median seconds of each, taken in turns so that a slow moment of the machine hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for job, spent in zip((first, second), times, strict=True):
            began = time.perf_counter()
            job()
            spent.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def peak_megabytes(rows: int) -> float:
    """Peak resident memory of a fresh process that releases the statistics of so many rows."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", str(rows)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def child(rows: int) -> None:
    import noisewise
    from noisewise import Bounds, families

    path, bounds = make_rows(rows), Bounds(LOWER, UPPER, outside="clamp")
    noisewise.release(
        path, column="x", family=families.Normal(), bounds=bounds, epsilon=1, ledger=None
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def small() -> None:
    import pyarrow

    import noisewise
    from noisewise import Bounds, families

    table, bounds = pyarrow.table({"x": range(200)}), Bounds(0, 200, outside="clamp")
    noisewise.release(
        table, column="x", family=families.Normal(), bounds=bounds, epsilon=1, ledger=None
    )


def run(*command: str) -> None:
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    path = make_rows(arguments.rows)
    lattice_sums(path)  # the file is in the page cache, and everything is imported
    lattice, plain = interleaved(
        lambda: lattice_sums(path), lambda: plain_sums(path), arguments.repeats
    )
    print(
        f"lattice sums / plain floating-point sums, {arguments.rows} rows: {lattice / plain:.2f} "
        "(at most 2)"
    )
    make_rows(arguments.rows // 10)
    low, high = peak_megabytes(arguments.rows // 10), peak_megabytes(arguments.rows)
    print(
        f"peak memory at {arguments.rows} rows / at a tenth: {high / low:.2f} (at most 1.2; "
        f"{low:.0f} and {high:.0f} MB)"
    )
    whole, opening = interleaved(small, lambda: duckdb.connect().close(), 5 * arguments.repeats)
    print(
        f"release of 200 records / opening a database: {whole / opening:.2f} ({whole * 1e3:.0f} "
        f"and {opening * 1e3:.0f} ms)"
    )
    noisewise = str(Path(sys.executable).parent / "noisewise")
    helping, importing = interleaved(
        lambda: run(noisewise, "--help"),
        lambda: run(sys.executable, "-c", "import numpy"),
        arguments.repeats,
    )
    print(
        f"noisewise --help / import numpy: {helping / importing:.2f} (at most 3; {helping:.2f} s)"
    )


if __name__ == "__main__":
    main()
