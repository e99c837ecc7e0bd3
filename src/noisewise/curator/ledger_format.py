"""The ledger's tables, and how the tables of earlier formats become them."""

import re
import sqlite3

APPLICATION_ID = 0x4E5A4C47
"""How SQLite's header says that a file is a ledger of ours: NZLG."""
VERSION = 5
"""The format that is written. Format 4 had no keys; format 3 had its tables, but was changed where
it stands, with a journal beside it.
"""
_SCHEMA = """
CREATE TABLE limits (position INTEGER PRIMARY KEY, dataset TEXT NOT NULL, amount TEXT NOT NULL, at TEXT NOT NULL,
                     currency TEXT NOT NULL DEFAULT 'epsilon');
CREATE TABLE spends (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, amount TEXT NOT NULL,
                     at TEXT NOT NULL, purpose TEXT NOT NULL, currency TEXT NOT NULL DEFAULT 'epsilon',
                     unit TEXT NOT NULL DEFAULT '');
CREATE TRIGGER spends_stay BEFORE DELETE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never deleted'); END;
"""  # noqa: E501
"""Limits and spends in the order in which they came. A spend is never deleted."""
_HOLD = (
    "CREATE TRIGGER spends_hold BEFORE UPDATE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is "
    "never changed'); END"
)
"""Nor is it changed; while a format grows, this trigger is away."""
_KEYS = """
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, spend TEXT NOT NULL UNIQUE);
CREATE TRIGGER IF NOT EXISTS keys_stay BEFORE DELETE ON keys BEGIN SELECT RAISE(ABORT, 'a key is never deleted'); END;
CREATE TRIGGER IF NOT EXISTS keys_hold BEFORE UPDATE ON keys BEGIN SELECT RAISE(ABORT, 'a key is never changed'); END
"""  # noqa: E501
"""What a request that may arrive twice is known by, and the spend that it made."""
_UNIT = re.compile(r"(replace_one|add_remove|move), [0-9]+ per person(?=\)$)")
"""The unit of privacy at the end of a spend's purpose, where format 2 told it."""
_FROM_1 = "".join(
    f"ALTER TABLE {table} RENAME COLUMN epsilon TO amount;ALTER TABLE {table} ADD COLUMN currency "
    "TEXT NOT NULL DEFAULT 'epsilon';"
    for table in ("limits", "spends")
)
"""What format 2 changed: every amount of format 1 was an epsilon."""


def create(connection: sqlite3.Connection) -> None:
    """A ledger without limits or spends, in an empty database."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.executescript(f"{_SCHEMA}{_HOLD};{_KEYS}")


def grow(connection: sqlite3.Connection, version: int) -> None:
    """From format 1, where every amount was an epsilon, and from 2, where only the purpose told the
    unit; formats before 5 had no keys.
    """
    if version == 1:
        for statement in _FROM_1.split(";"):
            connection.execute(statement)
    if version < 3:
        connection.execute("ALTER TABLE spends ADD COLUMN unit TEXT NOT NULL DEFAULT ''")
        connection.execute("DROP TRIGGER IF EXISTS spends_hold")
        for position, purpose in connection.execute(
            "SELECT position, purpose FROM spends"
        ).fetchall():
            told = _UNIT.search(str(purpose))
            unit = "" if told is None else told[0].replace("move", "replace_one")
            connection.execute("UPDATE spends SET unit = ? WHERE position = ?", (unit, position))
        connection.execute(_HOLD)
    for statement in _KEYS.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
