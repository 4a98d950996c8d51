"""Records as JSON, for the control port.

    {"key": "k", "value": {"base64": "/w=="}, "headers": [{"name": "h", "value": null}]}

Keys, values and headers are text where they are UTF-8, else base64. A record that has only a
value may be given as that value.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka.log.record import Record


def as_json(record: Record) -> dict[str, Any]:
    """A record of a log, as JSON."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"name": name, "value": _text(value)} for name, value in record.headers],
    }


def of_json(given: Any) -> Record:
    """The record to append, from JSON; headers may also be {name: value}."""
    if not isinstance(given, dict) or "base64" in given:
        return Record(_data(given))
    fields = dict(given)
    timestamp_ms = fields.pop("timestamp_ms", None)
    if not isinstance(timestamp_ms, int | None) or isinstance(timestamp_ms, bool):
        raise WrongType(f"timestamp_ms must be a number, got {timestamp_ms!r}")
    headers = _headers(fields.pop("headers", ()))
    record = Record(
        _data(fields.pop("value", None)), _data(fields.pop("key", None)), headers, timestamp_ms
    )
    if fields:
        raise OutOfRange(
            f"a record has no {', '.join(sorted(fields))}; it has key, value, headers and "
            "timestamp_ms"
        )
    return record


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    if isinstance(given, dict):
        return tuple((name, _data(value)) for name, value in given.items())
    try:
        return tuple((str(one["name"]), _data(one.get("value"))) for one in given)
    except (TypeError, KeyError, AttributeError):
        raise WrongType(
            f"headers must be {{name: value}} or a list of {{name, value}}, got {given!r}"
        ) from None


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _data(given: Any) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, dict) and set(given) == {"base64"} and isinstance(given["base64"], str):
        try:
            return base64.b64decode(given["base64"], validate=True)
        except binascii.Error as error:
            raise OutOfRange(f"not base64: {error}") from None
    raise WrongType(f'keys and values are text, null or {{"base64": "…"}}, got {given!r}')
