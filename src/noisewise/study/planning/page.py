"""A plan as one self-contained page."""

from noisewise.report.page import Page
from noisewise.report.suspicion import plot_suspicion
from noisewise.study.planning import answers
from noisewise.study.planning.plan import Plan


def page(plan: Plan, command: str, unit: str = "", width: float | None = None) -> Page:
    """Widths, what gives a wanted one, and what each cost means for one person."""
    main = plan.names[0]
    made = Page("What privacy will cost: a plan")
    made.words(f"Planned: {plan.design.about}.")
    made.words(answers.accuracy(plan))
    made.heading(answers.heading(plan, main, unit))
    made.table(answers.grid(plan, main))
    made.figures(
        [
            (
                plan.plot(unit=unit),
                "The interval shrinks with the number of records and with the privacy cost; dotted:"
                " what the same records give without noise.",
            )
        ]
    )
    if width is not None:
        made.heading(f"An interval of {width:g}{unit and f' {unit}'}")
        rows = answers.for_width(plan, width)
        made.table([{"with": row["given"], "it takes": row["needs"]} for row in rows])
    for name in plan.names[1:]:
        made.heading(answers.heading(plan, name, ""))
        made.table(answers.grid(plan, name))
    made.heading("What it means for one person")
    made.items([plan.meaning(amount).sentence for amount in plan.amounts])
    some = [plan.amounts[0]] if len(plan.amounts) == 1 else [min(plan.amounts), max(plan.amounts)]
    made.figures([(plot_suspicion(plan.meaning(one)), str(plan.meaning(one).cost)) for one in some])
    if command:
        made.heading("How to repeat it")
        made.code(command)
    return made
