"""A process that works for the studio, one piece after the other, and says how far it is.

It reads a line of JSON, {"root": folder, "task": name, "arguments": {...}}, and writes lines:
{"progress": 0.3}, {"ask": true} before anything is spent (and waits for a line, go), and at last
{"done": {...}} or {"failed": "words"}. Records are read here and nowhere else; what an engine
prints goes nowhere.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import IO, Any


class CalledOff(ValueError):
    """Nobody waits for the release any more; nothing was spent."""


def main() -> None:
    """With --ready everything is loaded before there is work."""
    talk = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)

    # before it stands in the folder, whose matplotlibrc could have it run other programs
    import matplotlib  # noqa: F401
    from threadpoolctl import threadpool_limits

    from noisewise.studio import tasks

    if "--ready" in sys.argv:
        tasks.load_all()

    with threadpool_limits(1):
        while line := sys.stdin.readline():
            asked = json.loads(line)
            os.chdir(asked["root"])
            told = _outcome(tasks.task(asked["task"]), asked["arguments"], talk)
            talk.write(json.dumps(told) + "\n")
            talk.flush()


def _outcome(task: Callable[..., Any], arguments: dict[str, Any], talk: IO[str]) -> dict[str, Any]:
    """What was found, or why not: in the words of the command line, and never an engine's."""

    def progress(share: float) -> None:
        talk.write(json.dumps({"progress": float(share)}) + "\n")

    def ask() -> None:
        talk.write('{"ask": true}\n')
        if sys.stdin.readline().strip() != "go":
            raise CalledOff("the release was called off, and nothing is spent.")

    try:
        return {"done": task(arguments, progress, ask)}
    except ValueError as error:  # NoisewiseError, and what frozen values say of themselves
        return {"failed": str(error)}
    except OSError as error:
        return {"failed": f"{error.filename}: {error.strerror}."}
    except Exception as error:  # its message might hold a record
        return {"failed": f"an unexpected {type(error).__name__}; please report what you did."}


if __name__ == "__main__":
    main()
