"""A gate that holds commits back, so that a test can act while one is under way."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

from sojourn.durable import schema

WAIT_S = 60.0


class Gate:
    """Holds commits back until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.opened.set()
        self.commits = 0

    def connect(self, path: str) -> Any:
        return _Gated(schema.connect(path), self)

    def shut(self) -> None:
        self.reached.clear()
        self.opened.clear()


class _Gated:
    def __init__(self, connection: sqlite3.Connection, gate: Gate) -> None:
        self._connection = connection
        self._gate = gate
        self.close = connection.close

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        alone = statement.startswith("INSERT") and not self._connection.in_transaction
        if statement == "COMMIT" or alone:
            self._gate.reached.set()
            assert self._gate.opened.wait(WAIT_S)
            self._gate.commits += 1
        return self._connection.execute(statement, parameters)
