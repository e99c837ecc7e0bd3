"""Big tables: throughput as a ratio to the engine's own plain sum, peak memory, and growth. Run:
python bench/scale.py

1. A folder of ten Parquet files with 2, 20 and 200 million rows, DuckDB limited to 1 GB:
   `noisewise.release` against
   DuckDB's own `count(*), sum(x)`, and against the sum of the clamped values, each in a process of
   its own, in turns.
2. The same by 3000 groups.
3. The moments of six columns, 2 and 20 million rows of Parquet: against DuckDB's own float sums of
   the same 27 columns and products, of the clamped values (and of the values as they are).
4. At most five records of each person, 20 million rows of 5 million persons in no order: against
   the same release without persons, and beside DuckDB's own count of the records of each. Either
   all have four records, or a tenth of them have 13 and the others three, or 2 million have ten;
   the persons are numbers, or names. Then other families, several columns, tables and groups.
   Memory is not limited there: all records are held.
5. 20 million rows on Spark (local, two threads) and on Dask (two workers): against the plain sums
   of those engines; on Spark the moments too.

--rows 2000000 makes everything a hundred times smaller. --only moments, or another part, measures
that alone. The tables, 4 GB in all, stay in bench/data unless --data says where else.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from release import interleaved

DATA = Path(__file__).parent / "data"
FILES, GROUPS, LIMIT = 10, 3000, "1GB"
LOWER, UPPER = 20.0, 80.0
CLAMPED = f"least(greatest(x, {LOWER}), {UPPER})"
COLUMNS = 6
VALUE = (
    "CASE WHEN random() < 0.001 THEN NULL ELSE (random() + random() + random() + random() - 2) "
    "* 30 + 50 END"
)
NOBODY, TENTH = "(row // 4)", "(row // 40 * 10 + least(row % 40 // 3, 9))"
TABLES = {
    "scale": f"{VALUE} AS x, 'county ' || (random() * {GROUPS} // 1)::INT AS county",
    "columns": ", ".join(f"{VALUE} AS x{j}" for j in range(COLUMNS)),
    "persons": f"{VALUE} AS x, {VALUE} AS y, ['f', 'm'][1 + (random() * 2)::INT % 2] AS sex, "
    "'ward ' || (random() * 20 // 1)::INT AS ward, (random() * 20 // 1)::INT AS visits, "
    f"{NOBODY} AS nobody, {TENTH} AS tenth, row // 10 AS everybody, "
    f"'patient ' || lpad({NOBODY}::VARCHAR, 9, '0') AS nobody_named, "
    f"'patient ' || lpad({TENTH}::VARCHAR, 9, '0') AS tenth_named",
}


def make_folder(rows: int, table: str = "scale") -> Path:
    """Ten files of normal-like numbers, a few of them missing, and of counties or other columns."""
    folder = DATA / f"{table}{rows}"
    if not folder.exists():
        part = DATA / f".{table}{rows}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        each = rows // FILES
        order = " ORDER BY hash(row)" if table == "persons" else ""
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE mixed AS SELECT row FROM range({rows}) t(row){order}")
        for number in range(FILES):
            query = f"SELECT {TABLES[table]} FROM mixed LIMIT {each} OFFSET {number * each}"
            connection.execute(f"COPY ({query}) TO '{part}/{number}.parquet'")
        part.rename(folder)
    return folder


def settings() -> dict[str, Any]:
    from noisewise import Bounds, families

    return {
        "column": "x",
        "family": families.Normal(variance=100.0),
        "bounds": Bounds(LOWER, UPPER, outside="clamp"),
        "epsilon": 1,
    }


def limited() -> None:
    """Every database of noisewise gets the limit that the plain sums have."""
    from noisewise.curator import database as databases

    def opened() -> duckdb.DuckDBPyConnection:
        database = unlimited()
        database.execute(f"SET memory_limit = '{LIMIT}'")
        return database

    unlimited, databases._open = databases._open, opened  # type: ignore[attr-defined]


def release(folder: Path) -> None:
    import noisewise

    noisewise.release(folder, ledger=None, **settings())


def release_groups(folder: Path) -> None:
    import noisewise

    groups = [f"county {number}" for number in range(GROUPS)]
    made = noisewise.release(
        folder, by="county", groups=groups, sizes="public", ledger=None, **settings()
    )
    assert len(made) == GROUPS


def kinds() -> dict[str, dict[str, Any]]:
    """Releases of persons, by what they are of."""
    from noisewise import Bins, Bounds, families

    clamp, redact = (Bounds(LOWER, UPPER, outside=rule) for rule in ("clamp", "redact"))
    wards = [f"ward {number}" for number in range(20)]
    cells = families.Table({"sex": ["f", "m"], "ward": wards})
    bins = families.Table({"x": Bins([20, 30, 40, 50, 60, 70, 80])})
    several = {"x": clamp, "y": redact, "sex": ["f", "m"]}
    return {
        "one mean": settings(),
        "normal": settings() | {"family": families.Normal()},
        "Poisson": {
            "column": "visits",
            "family": families.Poisson(),
            "bounds": Bounds(0, 30, outside="redact"),
        },
        "log-normal": settings() | {"family": families.LogNormal()},
        "gamma of free shape": settings() | {"family": families.Gamma()},
        "missing dropped": settings() | {"missing": "drop"},
        "categorical": {"column": "sex", "family": families.Categorical(["f", "m"], other="m")},
        "moments of one": {"family": families.Moments({"x": clamp})},
        "moments of two": {"family": families.Moments({"x": clamp, "y": redact})},
        "moments of three": {"family": families.Moments(several)},
        "table": {"family": cells},
        "histogram": {"family": bins},
        "groups": settings() | {"by": "ward", "groups": wards, "sizes": "released"},
    }


def release_persons(kind: str, person: str | None) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        import noisewise

        asked = {"epsilon": 1} | kinds()[kind]
        noisewise.release(
            folder, ledger=None, person=person, records_per_person=5 if person else 1, **asked
        )

    return run


def moments(outside: Any) -> dict[str, Any]:
    from noisewise import Bounds, families

    bounds = Bounds(LOWER, UPPER, outside=outside)
    return {"family": families.Moments(dict.fromkeys(names("x"), bounds)), "epsilon": 1}


def release_moments(outside: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        import noisewise

        noisewise.release(folder, ledger=None, **moments(outside))

    return run


def names(letter: str) -> list[str]:
    return [f"{letter}{j}" for j in range(COLUMNS)]


def float_sums(value: str) -> Callable[[Path], None]:
    """DuckDB's own sums of six columns and of their 21 products, as floats."""
    products = [f"{a} * {b}" for j, a in enumerate(names("u")) for b in names("u")[j:]]
    sums = ", ".join(f"sum({one})" for one in [*names("u"), *products])
    inner = ", ".join(f"{value.format(f'x{j}')} AS u{j}" for j in range(COLUMNS))

    def run(folder: Path) -> None:
        connection = duckdb.connect(config={"memory_limit": LIMIT, "temp_directory": ""})
        connection.execute(
            f"SELECT count(*), {sums} FROM (SELECT {inner} FROM '{folder}/*.parquet')"
        ).fetchall()

    return run


def query(columns: str, rest: str = "", limit: str = LIMIT) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        connection = duckdb.connect(config={"memory_limit": limit, "temp_directory": ""})
        connection.execute(f"SELECT {columns} FROM '{folder}/*.parquet' {rest}").fetchall()

    return run


JOBS: dict[str, Callable[[Path], None]] = {
    "release": release,
    "sum": query("count(*), sum(x)"),
    "clamped sum": query(f"count(*), sum({CLAMPED})"),
    "release by groups": release_groups,
    "sum by groups": query("county, count(*), sum(x)", "GROUP BY county"),
    "moments, clamp": release_moments("clamp"),
    "moments, redact": release_moments("redact"),
    "27 sums, clamped": float_sums(f"least(greatest({{}}, {LOWER}), {UPPER})"),
    "27 sums, as they are": float_sums("{}"),
}
PERSONS = {
    "nobody has more": "nobody",
    "a tenth have more": "tenth",
    "everybody has more": "everybody",
    "nobody has more, named": "nobody_named",
    "a tenth have more, named": "tenth_named",
}
COUNTED, WITHOUT = "DuckDB's own count by person", "without persons"
COUNTED_NAMES, HASHED_NAMES = "DuckDB's own count by name", "DuckDB's own digest of every name"
JOBS |= {job: release_persons("one mean", column) for job, column in PERSONS.items()}
JOBS |= {
    COUNTED: query("tenth, count(*)", "GROUP BY tenth HAVING count(*) > 100"),
    COUNTED_NAMES: query(
        "tenth_named, count(*)", "GROUP BY tenth_named HAVING count(*) > 100", "8GB"
    ),
    HASHED_NAMES: query("max(hash(tenth_named))"),
    WITHOUT: release_persons("one mean", None),
}
LIMITS = (COUNTED, COUNTED_NAMES, HASHED_NAMES)
OF_PERSONS = (*PERSONS, *LIMITS, WITHOUT)
KINDS = (
    "normal",
    "Poisson",
    "log-normal",
    "gamma of free shape",
    "missing dropped",
    "categorical",
    "moments of one",
    "moments of two",
    "moments of three",
    "table",
    "histogram",
    "groups",
)
CROWDS = {"nobody": "nobody", "a tenth": "tenth", "everybody": "everybody", WITHOUT: None}
OF_KINDS = {
    f"{kind}, {crowd}": release_persons(kind, column)
    for kind in KINDS
    for crowd, column in CROWDS.items()
}
JOBS |= OF_KINDS
OF_COLUMNS = ("moments, clamp", "moments, redact", "27 sums, clamped", "27 sums, as they are")


def child(job: str, rows: int) -> None:
    """Seconds of the job, the median of three after a first, which gets the memory that later ones
    have; and the peak memory of the process in MB.
    """
    table = "columns" if job in OF_COLUMNS else "scale"
    if job in OF_PERSONS or job in OF_KINDS:
        table = "persons"
    if table != "persons":
        limited()
    folder = make_folder(rows, table)
    JOBS[job](make_folder(10_000, table))  # everything is imported and started
    times = []
    for _ in range(4):
        began = time.perf_counter()
        JOBS[job](folder)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times[1:])
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measured(jobs: list[str], rows: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Median seconds and largest peak of each job; in turns, so that a slow moment of the machine
    hits all.
    """
    found: dict[str, list[list[float]]] = {job: [] for job in jobs}
    for _ in range(repeats):
        for job in jobs:
            command = [sys.executable, __file__, "--child", job, "--rows", str(rows)]
            command += ["--data", str(DATA)]
            found[job].append(
                json.loads(
                    subprocess.run(command, capture_output=True, text=True, check=True).stdout
                )
            )
    return {
        job: (statistics.median(s for s, _ in runs), max(m for _, m in runs))
        for job, runs in found.items()
    }


def duckdb_table(rows: int, repeats: int) -> None:
    seconds = []
    for size in (rows // 100, rows // 10, rows):
        make_folder(size)
        found = measured(["release", "sum", "clamped sum"], size, repeats)
        (own, memory), (plain, plain_memory), (clamped, _) = found.values()
        seconds.append(own)
        print(
            f"{size:>11,} rows: release {own:.2f} s, {size / own / 1e6:.0f} million rows/s; / "
            f"plain sum {own / plain:.2f}, "
            f"/ sum of clamped values {own / clamped:.2f}; peak {memory:.0f} MB (plain sum "
            f"{plain_memory:.0f} MB)",
            flush=True,
        )
    print(
        f"ten times the rows take {seconds[1] / seconds[0]:.1f} and "
        f"{seconds[2] / seconds[1]:.1f} times as long"
    )


def groups_line(rows: int, repeats: int) -> None:
    (own, memory), (plain, _) = measured(
        ["release by groups", "sum by groups"], rows, repeats
    ).values()
    print(
        f"{rows:>11,} rows by {GROUPS} groups: {own:.2f} s; / plain grouped sum "
        f"{own / plain:.2f}; peak {memory:.0f} MB"
    )


def moments_table(rows: int, repeats: int) -> None:
    for size in (rows // 10, rows):
        make_folder(size, "columns")
        found = measured(list(OF_COLUMNS), size, repeats)
        clamp, redact, clamped, plain = (found[job][0] for job in OF_COLUMNS)
        print(
            f"{size:>11,} rows of {COLUMNS} columns: moments {clamp:.2f} s; / 27 float sums of "
            f"clamped values {clamp / clamped:.2f}, of values as they are {clamp / plain:.2f}; "
            f"under redact {redact / clamped:.2f} and {redact / plain:.2f}; peak "
            f"{found[OF_COLUMNS[0]][1]:.0f} MB (plain sums {found[OF_COLUMNS[3]][1]:.0f} MB)",
            flush=True,
        )


def persons_table(rows: int, repeats: int) -> None:
    make_folder(rows, "persons")
    found = measured(list(OF_PERSONS), rows, repeats)
    for job in (*PERSONS, *LIMITS):
        seconds, memory = found[job]
        print(
            f"{rows:>11,} rows, {job}: {seconds:.2f} s; / the release without persons "
            f"{seconds / found[WITHOUT][0]:.1f}; peak {memory:.0f} MB",
            flush=True,
        )
    for kind in KINDS:
        found = measured([f"{kind}, {crowd}" for crowd in CROWDS], rows, repeats)
        plain = found.pop(f"{kind}, {WITHOUT}")[0]
        ratios = ", ".join(
            f"{seconds / plain:.1f} where {crowd} has more"
            for crowd, (seconds, _) in zip(CROWDS, found.values(), strict=False)
        )
        print(f"{rows:>11,} rows, {kind}: {plain:.2f} s; / that: {ratios}", flush=True)


def timed(
    first: Callable[[], object], second: Callable[[], object], repeats: int
) -> tuple[float, float]:
    first(), second()  # everything is started and in the page cache
    return interleaved(first, second, repeats)


def spark_line(rows: int, repeats: int) -> None:
    import noisewise

    if shutil.which("java") is None:
        print("Spark: not measured, there is no Java here")
        return
    from pyspark.sql import SparkSession, functions

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
    )
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = (
        builder.config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    frame = session.read.parquet(str(make_folder(rows)))
    own, plain = timed(
        lambda: noisewise.release(frame, ledger=None, **settings()),
        lambda: frame.agg(functions.sum("x")).collect(),
        repeats,
    )
    wide = session.read.parquet(str(make_folder(rows, "columns")))
    products = [
        functions.sum(wide[a] * wide[b]) for j, a in enumerate(names("x")) for b in names("x")[j:]
    ]
    several, sums = timed(
        lambda: noisewise.release(wide, ledger=None, **moments("clamp")),
        lambda: wide.agg(*[functions.sum(x) for x in names("x")], *products).collect(),
        repeats,
    )
    session.stop()
    print(
        f"{rows:>11,} rows on Spark: release {own:.2f} s; / its plain sum {own / plain:.2f}; "
        f"moments of {COLUMNS} columns {several:.2f} s; / its plain 27 sums {several / sums:.2f}",
        flush=True,
    )


def dask_line(rows: int, repeats: int) -> None:
    import dask.dataframe
    from distributed import Client, LocalCluster

    import noisewise

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        frame = dask.dataframe.read_parquet(str(make_folder(rows)))
        own, plain = timed(
            lambda: noisewise.release(frame, ledger=None, **settings()),
            lambda: frame["x"].sum().compute(),
            repeats,
        )
    print(
        f"{rows:>11,} rows on Dask: release {own:.2f} s; / its plain sum {own / plain:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--only", choices=["duckdb", "groups", "moments", "persons", "spark", "dask"]
    )
    arguments = parser.parse_args()
    globals()["DATA"] = arguments.data
    if arguments.child:
        child(arguments.child, arguments.rows)
        return
    warnings.simplefilter("ignore")
    tenth = arguments.rows // 10
    parts = {
        "duckdb": (duckdb_table, arguments.rows),
        "groups": (groups_line, tenth),
        "moments": (moments_table, tenth),
        "persons": (persons_table, tenth),
        "spark": (spark_line, tenth),
        "dask": (dask_line, tenth),
    }
    for part, (measure, rows) in parts.items():
        if arguments.only in (None, part):
            measure(rows, arguments.repeats)


if __name__ == "__main__":
    main()
