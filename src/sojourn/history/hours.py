"""An hour of a history: which batches it covers, and which files hold how many of its rows.

It is written when its files are in place, and says what they are worth: rows beyond it, and files
that it does not name, do not count yet. So everything of some batches appears at once, however
many files they went to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sojourn.errors import BadFile
from sojourn.history.tables import TABLES

FORMAT = 1


class Part(NamedTuple):
    """A file of an hour's, and how many of its rows count."""

    name: str
    rows: int


@dataclass(frozen=True)
class Hour:
    """One hour, UTC, by the time of batches."""

    name: str  # 2026-11-15T22
    first_batch: int
    last_batch: int
    first_ms: int  # the times of these two
    last_ms: int
    last_outcome: int  # the number of the last one recorded by then; 0 if there is none
    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)  # by table

    def rows(self, table: str) -> int:
        """How many rows of the table there are."""
        return sum(part.rows for part in self.parts[table])

    def to_json(self) -> str:
        fields: dict[str, Any] = {"format": FORMAT} | self.__dict__
        fields["parts"] = {
            table: [part._asdict() for part in parts] for table, parts in self.parts.items()
        }
        return json.dumps(fields, indent=1)

    @classmethod
    def from_json(cls, text: str, path: Any) -> Hour:
        try:
            fields = json.loads(text)
            if fields.pop("format") > FORMAT:
                raise BadFile(f"{path} was written by a newer version of sojourn; use that one")
            parts = fields.pop("parts")
            fields["parts"] = {
                table: tuple(Part(part["name"], part["rows"]) for part in parts[table])
                for table in TABLES
            }
            return cls(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadFile(
                f"{path} does not describe an hour of a history ({error!r}); "
                "restore it from a copy, or remove the hour"
            ) from None


def hour_of(time_ms: int) -> str:
    """The name of the hour that the time is in."""
    return str(np.datetime64(time_ms, "ms").astype("datetime64[h]"))
