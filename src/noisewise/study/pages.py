"""What a finished study leaves in its folder: tables, figures and one page."""

from pathlib import Path
from typing import Any

from noisewise.files import write_whole
from noisewise.report import study as plots
from noisewise.report.page import Page
from noisewise.report.plots import figure
from noisewise.report.units import figure_text
from noisewise.study.calibrate import Calibration
from noisewise.study.cells import Cell, write_table
from noisewise.study.compare import Comparison
from noisewise.study.verdict import KS_LEVEL, SIGMAS, histogram, ks_limit


def save_calibration(found: Calibration, folder: Path, command: str) -> Path:
    """Tables, figures and the page; returns the page."""
    rows = found.table
    write_table(rows, folder / "calibration")
    cells = list(dict.fromkeys(cell for cell, _ in found.uniforms))
    targets = list(dict.fromkeys(target for _, target in found.uniforms))
    trials = rows[0]["trials"]
    page = Page(f"Calibration of {cells[0].setting.family.kind}")
    page.text(f"Made by `{command}`.")
    page.text(
        f"{trials} times a truth was drawn from the prior {cells[0].setting.prior}, records from "
        "it, and a noisy release from "
        "them; U is the posterior probability below the truth. If a method's beliefs are right, U "
        "is uniform. A method passes "
        f"if its KS statistic is below the {KS_LEVEL:.1%} critical value, and the mean and "
        "variance of z = Phi^-1(U) lie within "
        f"{SIGMAS} standard errors of 0 and 1. A calibrated method fails in about one of 1000 rows."
    )
    page.heading("Verdicts")
    page.table([_short(row) for row in rows], [not row["passes"] for row in rows])
    page.heading("Coverage of central intervals")
    page.text("In brackets: where 95 % of studies of a calibrated method lie.")
    page.table([_coverage(row) for row in rows], [not row["passes"] for row in rows])
    if len({cell.setting.n for cell in cells}) > 1:
        page.heading("KS statistic against n")
        made = ks_figure(rows, targets)
        _save(made, folder / "ks")
        page.figure(
            made, "KS statistic against n for every epsilon and method, with the critical value"
        )
    for setting in dict.fromkeys(cell.setting for cell in cells):
        page.heading(f"n = {setting.n}, epsilon = {setting.epsilon:g}")
        made, axes = figure(len(targets), 2)
        for target, pair in zip(targets, axes, strict=True):
            samples = {
                cell.method: found.uniforms[cell, target]
                for cell in cells
                if cell.setting == setting
            }
            plots.ecdf_difference(pair[0], samples, ks_limit(trials, 0.95))
            counted = {method: histogram(u) for method, u in samples.items()}
            low, high = next(iter(counted.values()))[1:]
            plots.rank_histogram(
                pair[1], {method: bars[0] for method, bars in counted.items()}, low, high
            )
            pair[0].set_title(target)
            pair[1].set_title(target)
        plots.legend_below(made, axes[0][0])
        _save(made, folder / f"n{setting.n}-epsilon{setting.epsilon:g}")
        page.figure(
            made,
            f"ECDF difference and rank histogram at n = {setting.n}, epsilon = {setting.epsilon:g}",
        )
    out = folder / "index.html"
    write_whole(out, page.render().encode(), replace=True)
    return out


def ks_figure(rows: list[dict[str, Any]], targets: list[str]) -> Any:
    """KS against n: a row of axes for each target, a column for each epsilon."""
    epsilons = sorted({row["epsilon"] for row in rows})
    made, axes = figure(len(targets), len(epsilons))
    for target, line in zip(targets, axes, strict=True):
        for epsilon, axis in zip(epsilons, line, strict=True):
            chosen = [row for row in rows if row["target"] == target and row["epsilon"] == epsilon]
            sizes = sorted({row["n"] for row in chosen})
            methods = list(dict.fromkeys(row["method"] for row in chosen))
            lines = {
                m: [
                    row["ks"]
                    for n in sizes
                    for row in chosen
                    if row["n"] == n and row["method"] == m
                ]
                for m in methods
            }
            plots.against(axis, sizes, lines)
            plots.limit_line(axis, chosen[0]["ks_limit"], f"critical value ({KS_LEVEL:.1%})")
            plots.ks_scale(axis)
            axis.set_title(f"{target}, epsilon = {epsilon:g}")
            axis.set_xlabel("n, records")
            axis.set_ylabel("KS statistic (0 is calibrated)")
    plots.same_scale(axes.ravel())
    plots.legend_below(made, axes[0][0])
    return made


def save_comparison(found: Comparison, folder: Path, command: str) -> Path:
    """Tables, a figure and the page; returns the page."""
    rows = found.table
    write_table(rows, folder / "comparison")
    cell = next(iter(found.figures))
    page = Page(f"What privacy costs: {cell.setting.family.kind}")
    page.text(f"Made by `{command}`.")
    page.text(
        f"{rows[0]['trials']} times a truth was drawn from the prior {cell.setting.prior} and "
        "records from it; every method's "
        "posterior is held against the non-private one of the same records. MMD² is the paper's "
        "unbiased estimate with the "
        "kernel exp(-|x - y|²/2); 0 means that privacy costs nothing. The width ratio is that "
        "of the 90 % intervals. A narrow "
        "interval is a merit only in a method that is calibrated. Errors are two standard errors "
        "over trials."
    )
    made = utility_figure(rows)
    _save(made, folder / "comparison")
    page.figure(made, "MMD squared, interval width and error against n")
    page.heading("Figures")
    page.text("Means over trials, ± their Monte Carlo standard errors.")
    page.table([utility_in_words(row) for row in rows])
    out = folder / "index.html"
    write_whole(out, page.render().encode(), replace=True)
    return out


UTILITY = {
    "mmd2": "distance to the non-private posterior, MMD²",
    "width_ratio": "90 % interval, times the non-private one",
    "error": "error of the posterior mean",
    "error_non_private": "the same without noise",
}
"""What the figures of a comparison are called by people."""


def utility_in_words(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a comparison for people."""
    told = {name: row[name] for name in ("n", "epsilon", "method")}
    return told | {
        words: f"{figure_text(row[name])} ± {figure_text(row[name + '_mcse'], digits=2)}"
        for name, words in UTILITY.items()
    }


def utility_figure(rows: list[dict[str, Any]]) -> Any:
    """MMD^2, width and error against n, a row of axes for each epsilon."""
    epsilons = sorted({row["epsilon"] for row in rows})
    made, axes = figure(len(epsilons), 3)
    titles = {
        "mmd2": "MMD² to the non-private posterior",
        "width_ratio": "90 % interval, times the non-private one",
        "error": "absolute error of the posterior mean",
    }
    for epsilon, line in zip(epsilons, axes, strict=True):
        chosen = [row for row in rows if row["epsilon"] == epsilon]
        for (name, title), axis in zip(titles.items(), line, strict=True):
            draw_utility(axis, chosen, name)
            axis.set_ylabel(title)
            axis.set_title(f"epsilon = {epsilon:g}")
            axis.set_xlabel("n, records")
        line[1].axhline(1.0, color="#666666", linestyle="--", linewidth=1)
    for panels in axes.T:
        plots.same_scale(panels)
    plots.legend_below(made, axes[0][0])
    return made


def draw_utility(axis: Any, rows: list[dict[str, Any]], name: str) -> None:
    """One figure of utility against n for every method, with error bars."""
    sizes = sorted({row["n"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def column(what: str) -> dict[str, list[float]]:
        return {
            m: [row[what] for n in sizes for row in rows if row["n"] == n and row["method"] == m]
            for m in methods
        }

    plots.against(axis, sizes, column(name), column(f"{name}_mcse"))


def _short(row: dict[str, Any]) -> dict[str, Any]:
    told = {name: row[name] for name in ("n", "epsilon", "method", "target")}
    return told | {
        "KS statistic": f"{row['ks']:.4f}",
        "critical value": f"{row['ks_limit']:.4f}",
        "mean of z": f"{row['z_mean']:+.3f} (±{row['z_mean_limit']:.3f})",
        "variance of z": f"{row['z_variance']:.3f} (1 ± {row['z_variance_limit']:.3f})",
        "verdict": row["verdict"],
    }


def _coverage(row: dict[str, Any]) -> dict[str, Any]:
    out = {name: row[name] for name in ("n", "epsilon", "method", "target")}
    for name in [key for key in row if key.startswith("coverage_") and key.endswith("%")]:
        out[name.removeprefix("coverage_")] = (
            f"{row[name]:.1%} ({row[f'{name}_low']:.1%} to {row[f'{name}_high']:.1%})"
        )
    return out


def _save(made: Any, stem: Path) -> None:
    made.savefig(stem.with_name(stem.name + ".svg"))
    made.savefig(stem.with_name(stem.name + ".png"), dpi=150)


def cell_title(cell: Cell) -> str:
    """A short name for progress."""
    return f"n = {cell.setting.n}, epsilon = {cell.setting.epsilon:g}, {cell.method}"
