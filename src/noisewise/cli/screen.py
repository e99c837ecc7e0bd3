"""Text on the screen. What comes from a file or a table is shown, and cannot steer the terminal."""

import sys


def shown(text: str) -> str:
    """The text on one line, with an escape such as \\x1b for every character that would not be seen
    as itself.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def say(text: str, *, aside: bool = False) -> None:
    """Print lines of text; aside, to standard error."""
    print("\n".join(map(shown, text.split("\n"))), file=sys.stderr if aside else sys.stdout)
