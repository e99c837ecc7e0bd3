"""How far a run has come, for a person who is watching."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on standard error where a person is watching, once the work is seen to take long."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(
        TextColumn(label),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)
