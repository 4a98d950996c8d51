"""The little HTML that the pages need: a document, tables, and numbers that do not break."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sojourn.report import units
from sojourn.report.style import CSS, SCRIPT
from sojourn.report.units import count

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_FOOTER = (
    "Made by Sojourn. Times of day are UTC. Durations are rounded where they are written with two "
    "units. Numbers of the past are counted. What another timeout would have done is estimated "
    "where the data ends too soon to count it, and has bounds."
)


def document(title: str, sections: Iterable[str]) -> str:
    """One page that stands alone, without network and without other files."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + f"\n<footer>{_FOOTER}</footer>\n"
        f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], *, meter: int = -1) -> str:
    """A table; a cell that brings no tag of its own is an ordinary one."""

    def line(name: str, cells: Iterable[str]) -> str:
        drawn = ""
        for number, content in enumerate(cells):
            if content.startswith(("<th", "<td")):
                drawn += content
            else:
                class_ = ' class="meter"' if number == meter else ""
                drawn += f"<{name}{class_}>{content}</{name}>"
        return f"<tr>{drawn}</tr>"

    head, body = line("th", heads), "".join(line("td", row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def exactly(ms: int | None) -> str:
    """A duration as people read it; the milliseconds show when it is pointed at."""
    if ms is None:
        return "–"
    text = duration(ms)
    return text if text.endswith("ms") else f'<span title="{count(ms)} ms">{text}</span>'


def duration(ms: int) -> str:
    """In one piece: lines do not break inside."""
    return units.duration(ms).replace(" ", "\u00a0")


def share(part: int, whole: int) -> str:
    return units.share(part, whole).replace(" ", "\u00a0")


def percent(part: float) -> str:
    """A share that is not of two counts."""
    return units.percent(part).replace(" ", "\u00a0")


def operations(number: int) -> str:
    return f"{count(number)} operation{'' if number == 1 else 's'}"
