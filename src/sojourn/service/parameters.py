"""Parameters: what stands in a request's path and after its question mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote_to_bytes

from sojourn.service.errors import Refusal
from sojourn.service.limits import Limits

_MOST = 2**62


@dataclass(frozen=True)
class Parameter:
    """One parameter; the OpenAPI document is made from the same object."""

    name: str
    place: Literal["path", "query", "header"]
    description: str
    kind: Literal["integer", "string"] = "integer"
    default: Any = None
    least: int = 0
    limit: str | None = None  # the limit that it must not exceed, by name

    def most(self, limits: Limits) -> int:
        """The largest value that is taken."""
        return _MOST if self.limit is None else getattr(limits, self.limit)

    def value(self, text: str, limits: Limits) -> Any:
        """What the text means."""
        if self.kind == "string":
            return text
        most = self.most(limits)
        digits = text[1:] if text[:1] == "-" else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
            raise self._bad(text, "is not an integer", most)
        number = int(text)
        if not self.least <= number <= most:
            raise self._bad(text, "is out of range", most)
        return number

    def _bad(self, text: str, what: str, most: int) -> Refusal:
        return Refusal(
            400,
            "bad_parameter",
            f"{self.name}={text[:100]!r} {what}",
            found=text[:100],
            do=f"give an integer from {self.least} to {most}",
        )


def query_values(query: bytes, parameters: dict[str, Parameter], limits: Limits) -> dict[str, Any]:
    """The value of each parameter of the query, or its default."""
    values = {name: parameter.default for name, parameter in parameters.items()}
    if not query:
        return values
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=20,
        )
    except ValueError as error:
        raise Refusal(
            400,
            "bad_parameter",
            f"the query cannot be read: {error}",
            do="write name=value&name=value, percent-encoded UTF-8",
        ) from None
    seen_names: set[str] = set()
    for name, text in pairs:
        parameter = parameters.get(name)
        if parameter is None or name in seen_names:
            raise Refusal(
                400,
                "bad_parameter",
                f"the parameter {name[:100]!r} is {'there twice' if parameter else 'not known'}",
                found=name[:100],
                do=f"known here: {', '.join(parameters) or 'none'}",
            )
        seen_names.add(name)
        values[name] = parameter.value(text, limits)
    return values


def path_value(text: str) -> str:
    """A part of the path, percent-decoded."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise Refusal(
            400,
            "bad_parameter",
            "a part of the path is not UTF-8",
            found=text[:100],
            do="percent-encode the UTF-8 of the name",
        ) from None
