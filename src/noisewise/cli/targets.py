"""What the analyst's commands write, and show: whole files, and rows on one line each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noisewise.cli.screen import say, shown

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

TABLES = (".csv", ".parquet")
"""The endings of a file that holds a table."""
DRAWS = ".nc"
"""That of a file that holds draws, for ArviZ."""
OUT_HELP = "Where to write the table (.csv, .parquet) or, of one posterior, the draws (.nc, ArviZ)."
"""The help of --out, here and for a regression."""


def check_targets(out: Path | None, plot: Path | None, many: bool) -> None:
    """Refuse before a long run what could not be written after it."""
    from noisewise.files import check_folder

    kinds = TABLES if many else (*TABLES, DRAWS)
    if out is not None and out.suffix not in kinds:
        raise typer.BadParameter(f"--out {out} must end in {' or '.join(kinds)}.")
    if plot is not None and many:
        raise typer.BadParameter("--plot draws one posterior; for many groups use --out table.csv.")
    if plot is not None and plot.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter(f"--plot {plot} must end in .svg, .png or .pdf.")
    for target in (out, plot):
        if target is not None:
            check_folder(target)


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A file is filled elsewhere and then written to its target: whole or not at all."""
    from tempfile import TemporaryDirectory

    from noisewise.files import write_whole

    with TemporaryDirectory() as folder:
        partial = Path(folder) / target.name
        yield partial
        write_whole(target, partial.read_bytes(), replace=True)


def on_screen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with every text on one line."""
    return [
        {key: shown(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in rows
    ]


def write_one(posterior: "Posterior", out: Path, aside: bool) -> None:
    """The draws of one posterior, or its rows of the table of many, by the file's ending."""
    from noisewise.inference.posteriors import Posteriors

    with whole(out) as partial:
        if out.suffix == DRAWS:
            data = posterior.to_arviz()
            data.to_netcdf(str(partial))
            sizes = data["posterior"].sizes
            said = f"{sizes['chain']} chains of {sizes['draw']} draws, ArviZ netCDF"
        else:
            table = Posteriors([posterior]).table()
            write_table(table, partial)
            said = f"{len(table)} rows"
    say(f"wrote {out}: {said}", aside=aside)


def show_many(table: list[dict[str, Any]], out: Path | None, as_json: bool) -> None:
    """The table of many posteriors, into a file or on the screen."""
    if out is not None:
        with whole(out) as partial:
            write_table(table, partial)
        say(f"wrote {out}: {len(table)} rows", aside=as_json)
    elif as_json:
        print(json.dumps(table, allow_nan=False))
    else:
        say(csv_text(on_screen(table)).removesuffix("\n"))


def write_table(table: list[dict[str, Any]], path: Path) -> None:
    if path.suffix == ".csv":
        path.write_text(csv_text(table))
        return
    import duckdb
    import numpy as np

    columns = {
        name: np.array([row[name] for row in table], dtype=_dtype(table, name)) for name in table[0]
    }
    connection = duckdb.connect()
    connection.register("columns", columns)
    connection.sql("SELECT * FROM columns").write_parquet(str(path))


def _dtype(table: list[dict[str, Any]], name: str) -> Any:
    kinds = {type(row[name]) for row in table}
    return float if kinds == {float} else int if kinds == {int} else object


def csv_text(table: list[dict[str, Any]]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()
