"""Reads a page of the report back: its tables and its sentences, as a person sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input"}
_BLOCKS = ("td", "th", "div", "p", "li", "dd", "dt", "text", "small", "h1", "h2", "h3", "label")
_UNSEEN = ("script", "style", "svg")


@dataclass
class Element:
    """A tag with what is in it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What is written in it, without charts."""
        return " ".join("".join(self._said()).replace("\u00a0", " ").split())

    def _said(self) -> list[str]:
        if self.tag in _UNSEEN:
            return []
        words = [" "] if self.tag in _BLOCKS else []
        for child in self.children:
            words += [child] if isinstance(child, str) else child._said()
        return words

    def all(self, tag: str, class_: str | None = None) -> list[Element]:
        """The elements inside with this tag, and with this class."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                classes = child.attributes.get("class", "").split()
                if child.tag == tag and (class_ is None or class_ in classes):
                    found.append(child)
                found += child.all(tag, class_)
        return found

    def one(self, tag: str, class_: str | None = None) -> Element:
        (found,) = self.all(tag, class_)
        return found

    @property
    def rows(self) -> list[list[str]]:
        """Of a table, or of what has one: the text of its cells, without the head."""
        lines = self.one("tbody").all("tr")
        return [
            [cell.text for cell in line.children if isinstance(cell, Element)] for line in lines
        ]


class _Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.root = Element("page", {})
        self._open = [self.root]
        self.feed(page)
        self.close()
        assert self._open == [self.root], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def read_page(page: str) -> Element:
    """The page as a tree; its elements are closed in order."""
    return _Reader(page).root
