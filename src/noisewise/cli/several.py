"""Options that take several values."""

from typing import Any, ClassVar

from typer.core import TyperCommand


class SeveralCommand(TyperCommand):
    """Lets `--n 100 1000` stand for `--n 100 --n 1000`."""

    several: ClassVar[tuple[str, ...]] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rewritten: list[str] = []
        current = None
        for argument in args:
            if argument in self.several:
                current = argument
                continue
            if argument.startswith("--"):
                current = None
            rewritten += [argument] if current is None else [current, argument]
        return super().parse_args(ctx, rewritten)
