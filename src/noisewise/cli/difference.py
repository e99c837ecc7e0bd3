"""`noisewise infer --each a.json b.json --difference`: one group less the other."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noisewise.cli.progress import progress
from noisewise.cli.screen import say
from noisewise.cli.targets import whole, write_table

if TYPE_CHECKING:
    from noisewise.artifact import Release


def compare(
    found: "list[Release]",
    names: tuple[str, str],
    prior: str,
    n_prior: str | None,
    method: str,
    draws: int,
    seed: int | None,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Both posteriors, and the difference of each parameter and of what people use beside it: P(a >
    b), interval, picture.
    """
    from noisewise.inference import apart
    from noisewise.inference.difference import difference
    from noisewise.inference.infer import infer_many

    with progress("2 posteriors") as report:
        both = infer_many(
            found, prior, n_prior=n_prior, method=method, draws=draws, seed=seed, progress=report
        )
    rows: list[dict[str, Any]] = []
    values = {}
    for name in (*both[0].names, *both[0].derived):
        value = difference(both[0], both[1], name)
        values[name] = value
        low, high = value.interval(0.9)
        columns = value.labels or ("",)
        figures = [value.mean, value.sd, low, high, value.probability(above=0)]
        for j, label in enumerate(columns):
            one = [float(x) if value.draws.ndim == 1 else float(x[j]) for x in figures]
            title = f"{name}[{label}]" if label else name
            keys = ("mean", "sd", "5%", "95%", "probability_above_0")
            rows.append({"name": title} | dict(zip(keys, one, strict=True)))
    assumed = apart.assumption(found)
    if as_json:
        certificates = [posterior.certificate.content for posterior in both]
        content = {"a": names[0], "b": names[1], "difference": rows, "assumptions": assumed}
        print(json.dumps(content | {"certificates": certificates}, allow_nan=False))
    else:
        say(f"a = {names[0]}, b = {names[1]}")
        for row in rows:
            say(
                f"{row['name']}: a - b is {row['mean']:.4g}, 90 % in {row['5%']:.4g} to "
                f"{row['95%']:.4g}; P(a > b) = {row['probability_above_0']:.4g}"
            )
        for posterior, name in zip(both, names, strict=True):
            say(f"{name}: {posterior.certificate.sentence}")
        for assumption in assumed:
            say(f"assumed: {assumption}.")
    if out is not None:
        with whole(out) as partial:
            write_table(rows, partial)
        say(f"wrote {out}: {len(rows)} rows", aside=as_json)
    if plot is not None:
        from noisewise.report.forest import plot_difference
        from noisewise.report.release_page import main_quantity

        main = main_quantity(both[0])
        if values[main].draws.ndim > 1:
            raise typer.BadParameter("--plot draws the difference of one number; here are several.")
        with whole(plot) as partial:
            plot_difference(values[main], main, *names).savefig(partial)
        say(f"wrote {plot}", aside=as_json)
