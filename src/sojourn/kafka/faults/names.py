"""Kafka's names of APIs and errors, as tests write them."""

from __future__ import annotations

import difflib
import re

from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka import wire
from sojourn.kafka.wire import ErrorCode

_OLD_NAMES = {
    "not_leader": ErrorCode.not_leader_or_follower,
    "not_leader_for_partition": ErrorCode.not_leader_or_follower,
}


def api_of(name: str | None) -> str | None:
    """The API of this name, in Kafka's spelling or ours: ListOffsets, list_offsets; None: any."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise WrongType(f"api must be a name such as Produce, got {name!r}")
    api = re.sub(r"(?<=[a-z])(?=[A-Z])|[- ]", "_", name).lower()
    if api not in wire.VERSIONS:
        near = difflib.get_close_matches(api, wire.VERSIONS, 3) or sorted(wire.VERSIONS)
        raise OutOfRange(f"there is no API {name!r} here; there is {', '.join(near)}")
    return api


def error_of(error: ErrorCode | str | int) -> ErrorCode:
    """The error of this name or number."""
    if isinstance(error, ErrorCode):
        return error
    if isinstance(error, int) and not isinstance(error, bool):
        try:
            return ErrorCode(error)
        except ValueError:
            raise OutOfRange(f"Kafka has no error {error}") from None
    if not isinstance(error, str):
        raise WrongType(f"error must be a name or a number of Kafka's, got {error!r}")
    codes = {code.name: code for code in ErrorCode} | _OLD_NAMES
    code = codes.get(error.lower())
    if code is None:
        near = difflib.get_close_matches(error.lower(), codes, 3)
        hint = f"; did you mean {' or '.join(name.upper() for name in near)}?" if near else ""
        raise OutOfRange(f"Kafka has no error {error!r}{hint}")
    return code
