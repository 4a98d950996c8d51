"""Payloads: bytes, a text, or any other JSON value; on disk, and back as it was given."""

from __future__ import annotations

import json
import math
from typing import Any

from sojourn.errors import OutOfRange, WrongType

PAYLOAD_BYTES_MAX = 1 << 20
PAYLOAD_DEPTH_MAX = 100  # lists and dictionaries in each other

NONE, BYTES, TEXT, JSON = 0, 1, 2, 3  # kinds

Payload = bytes | str | int | float | list[Any] | dict[str, Any] | None


class WrittenJson(bytes):
    """A JSON value that the caller has checked and encoded already, with a faster encoder."""


def write_payload(payload: Any) -> tuple[int, bytes]:
    """Return the payload's kind and its bytes, or say what is wrong with it."""
    if payload is None:
        return NONE, b""
    if type(payload) is bytes:
        kind, written = BYTES, payload
    elif type(payload) is str:
        kind, written = TEXT, _utf8(payload)
    elif type(payload) is WrittenJson:
        kind, written = JSON, bytes(payload)
    else:
        _check(payload)
        kind, written = JSON, _json(payload)
    if len(written) > PAYLOAD_BYTES_MAX:
        raise OutOfRange(
            f"payload must have at most {PAYLOAD_BYTES_MAX} bytes, got {len(written)}; "
            "store it elsewhere and pass its name"
        )
    return kind, written


def read_payload(kind: int, written: bytes) -> Any:
    """Return the payload as it was given."""
    if kind == NONE:
        return None
    if kind == BYTES:
        return written
    if kind == TEXT:
        return written.decode()
    return json.loads(written)


def is_same_json(written: bytes, other: bytes) -> bool:
    """Whether two JSON payloads differ at most in the order of names."""
    return _json(json.loads(written), True) == _json(json.loads(other), True)


def _json(payload: Any, is_sorted: bool = False) -> bytes:
    try:
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys=is_sorted)
    except ValueError as error:  # an integer of more digits than Python reads
        raise OutOfRange(f"payload cannot be written as JSON: {error}") from None
    return _utf8(text)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise OutOfRange(f"payload cannot be written as UTF-8: {error}") from None


def _check(payload: Any) -> None:
    """See that it would come back as it is: of JSON's own types, and neither endless nor NaN.

    A value that stands in it twice is looked at twice; each takes a byte at least.
    """
    bytes_left = PAYLOAD_BYTES_MAX
    level = [payload]
    for depth in range(PAYLOAD_DEPTH_MAX + 1):
        bytes_left -= len(level)
        if not level or bytes_left < 0:
            break
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if depth == PAYLOAD_DEPTH_MAX and kind in (dict, list):
                raise OutOfRange(
                    f"payload must have at most {PAYLOAD_DEPTH_MAX} lists and dictionaries in "
                    "each other"
                )
            if kind is dict:
                for name in value:
                    if type(name) is not str:
                        raise WrongType(
                            f"payload: names in a dictionary must be str, got {name!r} "
                            f"({type(name).__name__})"
                        )
                below += value.values()
            elif kind is list:
                below += value
            elif kind is float:
                if not math.isfinite(value):
                    raise OutOfRange(f"payload: JSON has no {value}; leave it out, or send a str")
            elif kind not in (str, int, bool, type(None)):
                raise WrongType(
                    "payload must be bytes, or JSON's str, int, float, bool, None, list and dict, "
                    f"got {kind.__name__}"
                )
            if len(below) > bytes_left:
                break
        level = below
    if bytes_left < 0 or len(level) > bytes_left:
        raise OutOfRange(
            f"payload must have at most {PAYLOAD_BYTES_MAX} bytes, and has more values than that; "
            "store it elsewhere and pass its name"
        )
