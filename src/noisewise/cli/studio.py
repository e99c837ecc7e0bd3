"""`noisewise studio`: the same in a browser, on this machine."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from noisewise.cli.screen import say

NEEDS = ("jinja2", "python_multipart", "starlette", "uvicorn")
"""What the extra brings."""


def studio(
    folder: Annotated[
        Path, typer.Argument(help="The folder with tables, releases and ledgers.")
    ] = Path(),
    port: Annotated[
        int, typer.Option(help="Where to listen on 127.0.0.1; 0 finds a free port.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the link, and open no browser.")
    ] = False,
) -> None:
    """Plan, release and look in a browser, on this machine alone. Ctrl-C stops it."""
    if any(find_spec(name) is None for name in NEEDS):
        raise typer.BadParameter("the studio needs its extra: pip install 'noisewise[studio]'.")
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}; say where the tables are.")

    from noisewise.studio.serve import serve

    def tell(text: str) -> None:
        say(text)
        sys.stdout.flush()  # whoever reads a pipe wants the link now

    serve(folder.resolve(), port, not no_browser, tell)
