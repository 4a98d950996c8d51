"""The table in docs/kafka.md of where we differ on purpose.

    | step | field | Kafka | why |
    |---|---|---|---|
    | `topics: *` | `topics/*/error_code` | 3.9 | ... |

Step and field are patterns as a shell has them, several separated by a comma; the third column
says of which Kafka versions the row speaks: `3.9`, `4` or `both`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.checkout import ROOT
from tests.kafka.conformance.compare import Difference

PAGE = ROOT / "docs" / "kafka.md"
_HEAD = "| step | field | Kafka | why |"
_VERSIONS = {"3.9": ("3.9",), "4": ("4",), "both": ("3.9", "4")}


class Row(NamedTuple):
    """Where we differ from which versions, and why."""

    steps: tuple[str, ...]
    fields: tuple[str, ...]
    versions: tuple[str, ...]
    why: str

    def covers(self, difference: Difference) -> bool:
        return (
            difference.version.startswith(self.versions)
            and any(fnmatchcase(difference.step, step) for step in self.steps)
            and any(fnmatchcase(difference.field, field) for field in self.fields)
        )

    def __str__(self) -> str:
        return f"{', '.join(self.steps)} | {', '.join(self.fields)} | {self.why}"


def rows(page: str | None = None) -> list[Row]:
    """The table's rows, in order."""
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    found = []
    for table in text.split(_HEAD)[1:]:
        for line in table.split("\n")[2:]:
            if not line.startswith("|"):
                break
            step, field, versions, why = (cell.strip() for cell in line.strip("|").split("|", 3))
            found.append(Row(_patterns(step), _patterns(field), _VERSIONS[versions], why))
    return found


def _patterns(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))
