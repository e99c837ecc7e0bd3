"""What workers can do: each task takes the texts of a form, and hands back words and figures that
may be shown.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from noisewise.studio.folder import Folder

Progress = Callable[[float], None]
Ask = Callable[[], None]
"""Before anything is spent: raises where that is no longer wanted."""
Told = dict[str, Any]
Task = Callable[[Told, Progress, Ask], Told]
HOMES = {
    "dry_run": "noisewise.studio.curating",
    "publish": "noisewise.studio.curating",
    "posterior": "noisewise.studio.analysing",
    "check": "noisewise.studio.analysing",
    "plan": "noisewise.studio.analysing",
}
"""Where each is: whoever reads records need not load what infers, and the reverse."""


def task(name: str) -> Task:
    """By its name."""
    found: Task = getattr(import_module(HOMES[name]), name)
    return found


def load_all() -> None:
    """Be ready for any."""
    for home in set(HOMES.values()):
        import_module(home)


def here() -> Folder:
    """The studio's folder: where a worker stands."""
    return Folder(Path.cwd().resolve())
