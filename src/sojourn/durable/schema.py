"""The schema: the tables of the file, and what is checked when it is opened.

docs/durable-format.md draws the tables. Every row has a checksum.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from sojourn.durable.records import checksum_of
from sojourn.errors import BadFile, SojournError

APPLICATION = 0x534F4A57  # "SOJW"
FORMAT = 1

_TABLES = """
CREATE TABLE hashing (prime INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE journal (
    batch INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, first_sequence INTEGER NOT NULL,
    last_outcome INTEGER NOT NULL, body BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE snapshots (
    snapshot INTEGER PRIMARY KEY, batch INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    sequence INTEGER NOT NULL, last_outcome INTEGER NOT NULL, parts INTEGER NOT NULL,
    bytes INTEGER NOT NULL, is_complete INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE parts (
    snapshot INTEGER NOT NULL, part INTEGER NOT NULL, kind INTEGER NOT NULL, body BLOB NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (snapshot, part));
CREATE TABLE outcomes (
    number INTEGER PRIMARY KEY, id_hash INTEGER NOT NULL, status INTEGER NOT NULL,
    submitted_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL, by_key TEXT,
    told_ms INTEGER NOT NULL, content BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE INDEX outcomes_by_id ON outcomes (id_hash);
CREATE TABLE subscriptions (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE keepers (
    name TEXT PRIMARY KEY, batch INTEGER NOT NULL, last_outcome INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
"""

Connect = Callable[[str], Any]


def connect(path: str) -> sqlite3.Connection:
    """Open the file, for whichever thread."""
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)


def has_tables(connection: Any, path: str) -> bool:
    """Whether the file has our tables or none; raise if they are another program's or newer."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION:
        raise BadFile(f"{path} is an SQLite file of another program; give a file of its own")
    check_version(connection, path)
    return bool(tables)


def check_version(connection: Any, path: str) -> None:
    """Raise if a newer version wrote the file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise BadFile(
            f"{path} has format {version}, and this version of sojourn reads up to "
            f"{FORMAT}; use the newer sojourn that wrote it"
        )


def create_tables(connection: Any) -> None:
    """Make the tables, in one transaction."""
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        if statement.strip():
            execute(statement)
    prime = _random_prime()
    execute("INSERT INTO hashing VALUES (?, ?)", (prime, checksum_of(prime)))
    execute(f"PRAGMA application_id = {APPLICATION}")
    execute(f"PRAGMA user_version = {FORMAT}")
    execute("COMMIT")


def read_prime(connection: Any, path: str) -> int:
    """The prime by which ids are hashed."""
    prime: int
    prime, checksum = connection.execute("SELECT prime, checksum FROM hashing").fetchone()
    check_row(path, checksum, "the prime for hashing", prime)
    return prime


def check_row(path: str, checksum: int, name: str, *fields: Any) -> None:
    """Raise if the fields of a row do not have this checksum."""
    if checksum != checksum_of(*fields):
        raise damaged(path, name)


def damaged(path: str, name: str) -> BadFile:
    """The error for a row whose checksum is wrong."""
    return BadFile(
        f"{path}: the checksum of {name} is wrong, the file is damaged; restore it from a copy"
    )


@contextlib.contextmanager
def naming(path: str, action: str) -> Iterator[None]:
    """Turn SQLite's errors into ours, with the name of the file."""
    try:
        yield
    except SojournError:
        raise
    except Exception as error:
        raise BadFile(f"{path}: {action} failed: {error}") from error


def _random_prime() -> int:
    """A random prime of 48 bits."""
    while True:
        number = (1 << 47) | secrets.randbits(47) | 1
        if _is_prime(number):
            return number


def _is_prime(number: int) -> bool:
    """Miller and Rabin; with these bases it is certain below 3 * 10**14, which is 2**48."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True
