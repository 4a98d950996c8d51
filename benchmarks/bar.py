"""How far a run has come, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from rich.console import Console


def bar(console: Console) -> Progress:
    """A line with the field `workload` in front and what runs now behind."""
    return Progress(
        TextColumn("{task.fields[workload]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
    )
