"""`noisewise`: every refusal is one line on standard error and exit status 2."""

import json
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from noisewise.cli.audit import audit
from noisewise.cli.check import check
from noisewise.cli.infer import InferCommand, infer
from noisewise.cli.ledger import app as ledger_app
from noisewise.cli.mean import mean
from noisewise.cli.plan import PlanCommand, plan
from noisewise.cli.pool import pool
from noisewise.cli.regress import RegressCommand, regress
from noisewise.cli.release import ReleaseCommand, release
from noisewise.cli.report import ReportCommand, report
from noisewise.cli.screen import say
from noisewise.cli.studio import studio
from noisewise.cli.study import StudyCommand, calibrate, compare, reproduce
from noisewise.errors import UnsavedRelease

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""

app = typer.Typer(
    name="noisewise",
    help="Publish differentially private statistics, and draw calibrated conclusions from them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(ledger_app, name="ledger")
app.command(cls=PlanCommand)(plan)
app.command(cls=ReleaseCommand)(release)
app.command()(mean)
app.command(cls=InferCommand)(infer)
app.command()(check)
app.command()(pool)
app.command(cls=RegressCommand)(regress)
app.command(cls=ReportCommand)(report)
app.command()(studio)
app.command(cls=ReleaseCommand)(audit)
for study in (calibrate, compare):
    app.command(cls=StudyCommand)(study)
app.command()(reproduce)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("noisewise"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit status: 0, or 2 for whatever a person can mend, 130 if interrupted, 1 for a fault of
    ours.
    """
    try:
        status = app(args=arguments, standalone_mode=False)
        if status == INTERRUPTED:
            _refuse(
                "interrupted; if a release was under way, `noisewise ledger show` tells "
                "whether it was paid for."
            )
        return status if isinstance(status, int) else 0
    except UnsavedRelease as error:
        made = error.release if isinstance(error.release, list) else [error.release]
        for one in made:
            # in ASCII
            print(
                json.dumps(json.loads(one.to_json()), indent=2 if len(made) == 1 else None),
                flush=True,
            )
        return _refuse(f"{error} It stands on standard output; keep that.")
    except TyperException as error:  # the command line itself is wrong
        return _refuse(getattr(error, "format_message", error.__str__)())
    except ValueError as error:  # NoisewiseError, and what frozen values say of themselves
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}.")
    except Exception as error:  # its message or traceback might hold a record
        print(
            f"noisewise: an unexpected {type(error).__name__}; please report the command that "
            "you ran.",
            file=sys.stderr,
        )
        return 1


def _refuse(message: str) -> int:
    """One line, in which a name from outside cannot steer the terminal."""
    line = " ".join(message.split())
    if line:  # a bare `noisewise` has printed its help already
        say(f"noisewise: {line}", aside=True)
    return 2
