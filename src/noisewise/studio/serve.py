"""The studio's server: on this machine alone, until Ctrl-C."""

import logging
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from threadpoolctl import threadpool_limits

from noisewise.errors import NoisewiseError
from noisewise.studio.app import make_app, warm_up
from noisewise.studio.security import Keys
from noisewise.studio.site import Site
from noisewise.studio.workers import Workers

HOST = "127.0.0.1"
"""Nobody else's machine reaches it."""


def serve(root: Path, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Listen, print the link, and answer until interrupted."""
    listening = _listening(port)
    workers = Workers()
    keys = Keys(listening.getsockname()[1])
    site, guard = make_app(root, keys, workers)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).disabled = True  # an address holds settings, a traceback files
    config = uvicorn.Config(
        guard,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        ws="none",
    )
    say(f"The studio is open for {root}, on this machine alone:\n\n    {keys.link}\n")
    say("Whoever has that link may release from this folder. Ctrl-C stops the studio.")
    say(
        f"A browser that does not find that name takes {keys.link_by_number}\nThen open no page of "
        "another server on this machine meanwhile: it would be sent the studio's cookie."
    )
    if browser and _has_browser():
        threading.Timer(0.5, webbrowser.open, [keys.link_once]).start()
    with threadpool_limits(1), suppress(KeyboardInterrupt):
        threading.Thread(target=_warm, args=(site,), daemon=True).start()
        uvicorn.Server(config).run(sockets=[listening])
    workers.close()
    say("The studio is closed.")


def _warm(site: Site) -> None:
    with suppress(Exception):
        warm_up(site)


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen()  # whoever follows the link before the server is up waits, and is not refused
    except (OSError, OverflowError):
        made.close()
        raise NoisewiseError(
            f"port {port} cannot be used; leave --port out, and a free one is found."
        ) from None
    return made


def _has_browser() -> bool:
    """Not on a server without a screen, where a browser in text would take the terminal."""
    if os.name == "posix" and os.uname().sysname != "Darwin":
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True
