"""An answer three ways, as text and as a picture: the posterior, the noisy numbers taken for true,
and the records themselves, which nobody outside may see.
"""

from collections.abc import Mapping

from noisewise.report.plots import COLOURS, figure

Answer = tuple[float, float, float]
"""The middle of an interval, its lower and its upper end."""


def show(
    ways: Mapping[str, Mapping[str, Answer]], axis_label: str, picture: str, zero: bool = False
) -> None:
    """By way, and by what is asked; all have the same questions."""
    names = list(next(iter(ways.values())))
    width = max(map(len, names)) + 2
    print(" " * width + "".join(f"{way:>30s}" for way in ways))
    for name in names:
        cells = [
            f"{middle:.3g} ({low:.3g} to {high:.3g})"
            for middle, low, high in (answers[name] for answers in ways.values())
        ]
        print(f"{name:{width}s}" + "".join(f"{cell:>30s}" for cell in cells))
    drawn, ((axes,),) = figure(1, 1)
    drawn.set_size_inches(6.6, 1.6 + 0.55 * len(names))
    if zero:
        axes.axvline(0.0, color="#888888", linewidth=0.8, linestyle="--")
    for place, ((way, answers), colour) in enumerate(zip(ways.items(), COLOURS, strict=False)):
        middle, low, high = zip(*answers.values(), strict=True)
        y = [row + 0.22 * (place - 1) for row in range(len(names))]
        axes.hlines(y, low, high, color=colour, linewidth=1.6)
        axes.plot(middle, y, "o", color=colour, markersize=4.5, label=way)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(f"{axis_label}: middle and 90 % interval")
    axes.legend(
        frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.28), ncols=len(ways)
    )
    drawn.savefig(picture)
    print(f"wrote {picture}")
