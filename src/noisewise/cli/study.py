"""`noisewise calibrate`, `compare` and `reproduce`: evidence, with a live table while it is
gathered.
"""

import shlex
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from noisewise.asked.numbers import number, pair
from noisewise.cli.several import SeveralCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from noisewise.model.arrays import FloatArray
    from noisewise.model.bounds import Bounds
    from noisewise.study.cells import Cell


class StudyCommand(SeveralCommand):
    """`--n 100 1000`."""

    several: ClassVar[tuple[str, ...]] = ("--n", "--epsilon", "--methods")


Family = Annotated[
    str, typer.Option(help="Such as exponential, or 'normal(variance=4)'.", show_default=False)
]
PriorText = Annotated[
    str, typer.Option(help="Such as 'gamma(shape=8, rate=2)'.", show_default=False)
]
Sizes = Annotated[
    list[int], typer.Option("--n", help="Numbers of records, one or more.", show_default=False)
]
Epsilons = Annotated[
    list[str], typer.Option(help="Privacy costs, one or more.", show_default=False)
]
Out = Annotated[
    Path, typer.Option(help="The study's folder; give it again to go on.", show_default=False)
]
Limits = Annotated[
    tuple[str, str] | None,
    typer.Option(help="LOWER UPPER, for an unbounded family.", show_default=False),
]
Outside = Annotated[
    str, typer.Option(help="What becomes of records outside the bounds: redact or clamp.")
]
Methods = Annotated[
    list[str],
    typer.Option(help="Of auto, exact, collapsed, gibbs, gibbs-paper, naive, ops, non-private."),
]
Seed = Annotated[
    int, typer.Option(help="The same seed gives the same numbers, whatever the number of workers.")
]
Jobs = Annotated[int, typer.Option(help="How many cores to use; 0 for all.")]
Dask = Annotated[
    str | None,
    typer.Option(
        help="A Dask scheduler, such as tcp://host:8786, instead of --jobs.", show_default=False
    ),
]


def calibrate(
    family: Family,
    prior: PriorText,
    n: Sizes,
    epsilon: Epsilons,
    out: Out,
    bounds: Limits = None,
    outside: Outside = "redact",
    methods: Methods = ["auto"],  # noqa: B006
    trials: Annotated[int, typer.Option(help="Simulated releases for each combination.")] = 4000,
    seed: Seed = 0,
    jobs: Jobs = 0,
    dask: Dask = None,
) -> None:
    """Check by simulation that a method's beliefs are right, for a model of yours."""
    from noisewise.model import notation
    from noisewise.study.calibrate import run_cells
    from noisewise.study.cells import grid
    from noisewise.study.pages import save_calibration
    from noisewise.study.verdict import ks

    limits = _bounds(bounds, outside)
    cells = grid(
        notation.family(family), notation.prior(prior), n, _costs(epsilon), limits, methods, trials
    )
    with live(cells, trials, "KS so far", ks) as report:
        found = run_cells(cells, trials, seed, out, _workers(jobs), dask, report)
    page = save_calibration(found, out, _command())
    columns = (
        "n",
        "epsilon",
        "method",
        "target",
        "ks",
        "ks_limit",
        "coverage_90%",
        "z_mean",
        "z_variance",
        "verdict",
    )
    _print_rows([{name: row[name] for name in columns} for row in found.table])
    print(f"wrote {page}, with calibration.csv, calibration.json and the figures beside it")


def compare(
    family: Family,
    prior: PriorText,
    n: Sizes,
    epsilon: Epsilons,
    out: Out,
    bounds: Limits = None,
    outside: Outside = "redact",
    methods: Methods = ["auto", "naive"],  # noqa: B006
    trials: Annotated[int, typer.Option(help="Simulated releases for each combination.")] = 200,
    draws: Annotated[int, typer.Option(help="Draws of each posterior that MMD compares.")] = 2000,
    seed: Seed = 0,
    jobs: Jobs = 0,
    dask: Dask = None,
) -> None:
    """Weigh what privacy costs: distance from the non-private posterior, interval width, error."""
    from noisewise.model import notation
    from noisewise.study.cells import grid
    from noisewise.study.compare import compare_cells
    from noisewise.study.pages import save_comparison, utility_in_words

    cells = grid(
        notation.family(family),
        notation.prior(prior),
        n,
        _costs(epsilon),
        _bounds(bounds, outside),
        methods,
        trials,
    )
    with live(cells, trials, "MMD² so far", lambda values: float(values.mean())) as report:
        found = compare_cells(cells, trials, seed, out, _workers(jobs), dask, report, draws)
    page = save_comparison(found, out, _command())
    _print_rows([utility_in_words(row) for row in found.table])
    print(f"wrote {page}, with comparison.csv, comparison.json and the figure beside it")


def reproduce(
    out: Out,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer trials and points: a minute or two.")
    ] = False,
    seed: Seed = 0,
    jobs: Jobs = 0,
    dask: Dask = None,
) -> None:
    """Redraw every figure of Bernstein & Sheldon (2018), and say what agrees."""
    from noisewise.study import reproduce as paper

    page = paper.run(paper.plan(quick), out, seed, _workers(jobs), dask, live, _command())
    print(f"wrote {page}, with the figures and tables beside it")


def _bounds(limits: tuple[str, str] | None, outside: str) -> "Bounds | None":
    from noisewise.model.bounds import Bounds

    return None if limits is None else Bounds(*pair(limits, "--bounds"), outside=outside)  # type: ignore[arg-type]


def _costs(epsilons: list[str]) -> list[float]:
    return [number(epsilon, "--epsilon") for epsilon in epsilons]


def _workers(jobs: int) -> int:
    import os

    return len(os.sched_getaffinity(0)) if jobs == 0 else jobs


def _command() -> str:
    return shlex.join(["noisewise", *sys.argv[1:]])


def _print_rows(rows: "Sequence[dict[str, Any]]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(
            name, justify="left" if isinstance(value, str) else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(
            *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


@contextmanager
def live(
    cells: "Sequence[Cell]", trials: int, what: str, figure: "Callable[[FloatArray], float]"
) -> "Iterator[Callable[[Cell, FloatArray], None]]":
    """A table on standard error of what is running: trials done, trials a second, time left, and
    the figure so far.
    """
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    from noisewise.study.pages import cell_title

    start, state = time.monotonic(), {cell: (0, float("nan")) for cell in cells}
    held: dict[str, int] = {}

    def view() -> Any:
        done = sum(count for count, _ in state.values())
        total = trials * len(state)
        rate = max(done - held.get("start", 0), 0) / max(time.monotonic() - start, 1e-9)
        table = Table(box=None, pad_edge=False)
        for name in ("setting", "trials", what):
            table.add_column(name, justify="left" if name == "setting" else "right")
        running = [cell for cell, (count, _) in state.items() if count < trials]
        for cell in [*[c for c in state if c not in running][-8:], *running[:8]]:
            count, value = state[cell]
            table.add_row(
                cell_title(cell), f"{count} of {trials}", "" if count == 0 else f"{value:.4g}"
            )
        left = f"{timedelta(seconds=int((total - done) / rate))} left" if rate > 0 else "starting"
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=total, completed=done, width=40),
            f"{done} of {total} trials, {rate:.0f} a second, {left}",
        )
        return Group(table, bar)

    console = Console(stderr=True)
    with Live(
        view(),
        console=console,
        refresh_per_second=4,
        transient=True,
        get_renderable=view,
        auto_refresh=console.is_terminal,
    ):

        def report(cell: "Cell", values: "FloatArray") -> None:
            state[cell] = (len(values), figure(values))
            if time.monotonic() - start < 0.5:  # read from disk, not done now
                held["start"] = sum(count for count, _ in state.values())

        yield report
