"""Figures of posteriors. Colours are of the Okabe-Ito palette, told apart by every kind
of sight.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.report.axes import no_density_axis, plain, readable

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The Okabe-Ito palette."""
MOST_CATEGORIES = 40
"""Categories that a figure shows: more are no longer told apart."""


def figure(rows: int, columns: int) -> tuple[Any, Any]:
    """A figure with a table of axes, drawn without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(4.9 * columns, 3.5 * rows), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
    return made, axes


def plot_posterior(posterior: "Posterior", axes: Any = None) -> Any:
    """Each parameter's density with its 90 % interval; a categorical's probabilities as points with
    theirs.
    """
    made = None
    if axes is None:
        names = (*posterior.names, *posterior.derived)
        made, table = figure(1, len(names))
        axes = table[0]
    else:
        names = posterior.names
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        several = name in posterior.names
        several = several and posterior.family.parameters[posterior.names.index(name)].size > 1
        if several:
            _categories(posterior, name, axis)
        else:
            draw_density(axis, posterior, name, COLOURS[0], posterior.method)
            at, _ = posterior.curve(name)
            readable(axis, float(at[0]), float(at[-1]), name)
            no_density_axis(axis)
            _, (label, *_) = axis.get_legend_handles_labels()
            axis.set_title(label, fontsize=9, loc="left", color="#444444")
    return made if made is not None else np.atleast_1d(axes)[0].figure


def draw_density(axis: Any, posterior: "Posterior", name: str, colour: str, label: str) -> None:
    """One density, its 90 % interval shaded."""
    theta, density = posterior.curve(name)
    low, high = posterior.interval(name, 0.9)
    inside = (theta >= low) & (theta <= high)
    axis.plot(
        theta,
        density,
        color=colour,
        label=f"{label}: {_middle(posterior, name)}, 90 % in {low:.4g} to {high:.4g}",
    )
    axis.fill_between(theta[inside], density[inside], color=colour, alpha=0.15, linewidth=0)
    axis.set_ylim(bottom=0)
    axis.spines[["top", "right"]].set_visible(False)


def _middle(posterior: "Posterior", name: str) -> str:
    """The mean, or where there is none the median."""
    mean = posterior.mean(name)
    return f"median {posterior.quantile(name, 0.5):.4g}" if mean is None else f"{mean:.4g}"


def _categories(posterior: "Posterior", name: str, axis: Any) -> None:
    labels = [str(label) for label in posterior.family.labels_of(name)]
    mean = posterior.mean(name)
    shown = np.sort(np.argsort(-mean)[:MOST_CATEGORIES])
    low, high = posterior.interval(name, 0.9)
    y = np.arange(shown.size)
    axis.errorbar(
        mean[shown],
        y,
        xerr=[np.maximum(mean - low, 0)[shown], np.maximum(high - mean, 0)[shown]],
        fmt="o",
        color=COLOURS[0],
        capsize=2,
    )
    axis.set_yticks(y, [plain(labels[j]) for j in shown])
    axis.invert_yaxis()
    readable(axis, 0.0, float(high[shown].max()), "probability: mean and 90 % interval")
    more = f" (the {MOST_CATEGORIES} largest of {mean.size})" if mean.size > MOST_CATEGORIES else ""
    axis.set_ylabel(f"category{more}")
    axis.spines[["top", "right"]].set_visible(False)
