"""A database serves one release after the other, and remembers none of them."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from noisewise import Bounds, families
from noisewise.curator.database import connect
from noisewise.curator.shield import shielded
from noisewise.errors import RecordsError
from noisewise.mechanism.lattice import lattice_for
from tables import exact_sums


def total(path: Path) -> int:
    family, bounds = families.Poisson(), Bounds(0, 9, outside="clamp")
    ((_, (found,)),) = exact_sums(path, lattice_for(family, bounds))
    return found


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_that_changes_is_read_anew(name: str, tmp_path: Path) -> None:
    """Also where neither its size nor its time of change tells."""
    path, found = tmp_path / name, []
    for value in (3, 7):
        duckdb.sql(f"COPY (SELECT {value} AS x) TO '{path}'")
        os.utime(path, (1, 1))
        found.append(total(path))
    assert found[1] - found[0] == 4


def test_nothing_is_left_of_a_release(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n3\n")
    total(tmp_path / "t.csv")
    with connect() as connection:
        for what in (
            "tables()",
            "views() WHERE NOT internal",
            "temporary_files()",
            "external_file_cache()",
            "logs()",
        ):
            assert connection.execute(f"SELECT count(*) FROM duckdb_{what}").fetchall() == [(0,)]


FORKED = """
import os, sys
from pathlib import Path
from curator.test_database import total

path = Path(sys.argv[1])
total(path)
child = os.fork()
print(total(path), flush=True)
if child:
    sys.exit(os.waitpid(child, 0)[1] != 0)
"""


def test_a_process_forked_after_a_release_ends_well(tmp_path: Path) -> None:
    """An open database would take the child down when it ends."""
    (tmp_path / "t.csv").write_text("x\n" + "3\n" * 10**6)
    words = [sys.executable, "-c", FORKED, str(tmp_path / "t.csv")]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[1]
    )
    assert (done.returncode, done.stdout) == (0, f"{3 * 10**6}\n" * 2), done.stderr


def test_threads_get_databases_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.csv" for i in range(8)]
    for i, path in enumerate(paths):
        path.write_text("x\n" + f"{i}\n" * 5000)
    found: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda i=i: found.__setitem__(i, total(paths[i]))) for i in range(8)
    ]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: total(path) for i, path in enumerate(paths)}


def test_nobody_else_is_in_it_and_one_that_failed_is_left() -> None:
    """A fault of DuckDB's own closes a database for everybody in it, and quotes itself to them."""

    def tables() -> int:
        with connect() as connection:
            return len(connection.execute("SELECT * FROM duckdb_tables()").fetchall())

    with suppress(duckdb.FatalException), connect() as connection:
        connection.execute("CREATE TABLE mark AS SELECT 1")
        assert tables() == 0
        raise duckdb.FatalException
    assert tables() == 0


def test_an_interrupted_query_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    """DuckDB makes an error of Ctrl-C, which is no fault of the records."""
    (tmp_path / "t.csv").write_text("x\n" + "3\n" * 10**7)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            total(tmp_path / "t.csv")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_error_is_not_asked_for_its_words() -> None:
    """An object within it might answer with a record."""

    class Record:
        def __str__(self) -> str:
            raise RuntimeError("SECRET")

        __eq__ = __repr__ = __str__  # type: ignore[assignment]

    def fail() -> None:
        raise RuntimeError(Record())

    with pytest.raises(RecordsError) as caught:
        shielded(fail)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
