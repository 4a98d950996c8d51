"""The wire: rows as JSON on their way out; operations, answers and errors on their way in.

Rows are checked here, by the rules of the embedded purgatory and with its errors. What is wrong
is refused without asking the service.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sojourn.client.calls import NoReply, Reply
from sojourn.durable import Answer, Operation
from sojourn.durable.checks import checked_id, checked_signal_row
from sojourn.durable.submissions import checked_row, class_of, payload_of, traceparent_of
from sojourn.errors import (
    Full,
    IdTaken,
    Missed,
    NotWritten,
    OutOfRange,
    ServiceError,
    SojournError,
    Unauthorized,
    Unreachable,
    WrongType,
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

# By the service's code. What is not here is a ServiceError.
_ERRORS: dict[str, type[SojournError]] = {
    "id_taken": IdTaken,
    "full": Full,
    "not_written": NotWritten,
    "bad_row": OutOfRange,
    "bad_parameter": OutOfRange,
    "too_large": OutOfRange,
    "too_many_rows": OutOfRange,
    "id_too_long": OutOfRange,
    "key_too_long": OutOfRange,
    "payload_too_large": OutOfRange,
    "too_many_requirements": OutOfRange,
    "unauthorized": Unauthorized,
    "forbidden": Unauthorized,
    "closing": Unreachable,
    "too_many_connections": Unreachable,
    "too_many_waiters": Unreachable,
}
_SHOWN = 200  # characters of a reply that cannot be read


# Out.


def submission_row(row: Any) -> bytes:
    """The arguments of `submit`, in their order or by name, as an operation in JSON."""
    submission = checked_row(row)
    content, flat = submission.content, submission.requires
    operation: dict[str, Any] = {
        "id": submission.id,
        "requires": [
            {"key": key, "offset": offset}
            for key, offset in zip(flat[::2], flat[1::2], strict=True)
        ],
        "timeout_ms": submission.timeout_ms,
    }
    if 2 * submission.needed < len(flat):
        operation["needed"] = submission.needed
    if class_ := class_of(content):
        operation["class"] = class_
    payload = payload_of(content)
    if isinstance(payload, bytes):
        operation["payload_base64"] = b64encode(payload).decode()
    elif payload is not None:
        operation["payload"] = payload
    if traceparent := traceparent_of(content):
        operation["traceparent"] = traceparent
    return _encode(operation).encode()


def signal_row(row: Any) -> bytes:
    """(key, offset) as a signal in JSON."""
    key, offset = checked_signal_row(row)
    return _encode({"key": key, "offset": offset}).encode()


def cancel_row(id: Any) -> bytes:
    """An id as a cancel in JSON."""
    return _encode({"id": checked_id(id)}).encode()


def position_row(number: int) -> bytes:
    """A subscription's position in JSON."""
    return _encode({"number": number}).encode()


# In.


def read(reply: Reply | NoReply, url: str) -> dict[str, Any]:
    """The object that the service replied with; if it is an error, raise that."""
    if isinstance(reply, NoReply):
        message = f"{url} gave no answer: {_gist(reply.error)}; is it running, and is that its URL?"
        raise Unreachable(message) from reply.error
    value = _value(reply)
    if 200 <= reply.status < 300 and isinstance(value, dict):
        return value
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        raise read_error(value["error"])
    raise _unreadable(reply, url)


def code(reply: Reply) -> str | None:
    """The service's word for the error, if the reply is one."""
    return _error(reply).get("code")


def is_unknown(reply: Reply | NoReply, name: str) -> bool:
    """Whether the service knows nothing of that name; a path that is not ours is another matter."""
    if not isinstance(reply, Reply) or reply.status != 404:
        return False
    error = _error(reply)
    return error.get("code") == "not_found" and error.get("found") == name


def _error(reply: Reply) -> dict[str, Any]:
    value = _value(reply)
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}


def _value(reply: Reply) -> Any:
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def _gist(error: Exception) -> str:
    return str(error) or type(error).__name__


def _unreadable(reply: Reply, url: str) -> SojournError:
    if reply.status in (502, 503, 504):
        return Unreachable(f"{url} answered {reply.status} all the time; try later")
    if reply.status in (401, 403):
        return Unauthorized(f"{url} answered {reply.status}; give a token, or another one")
    if 300 <= reply.status < 400:
        where = reply.headers.get("location", "elsewhere")
        return ServiceError(f"{url} sends us to {where}, which is not followed; give that URL")
    text = reply.body[:_SHOWN].decode(errors="replace")
    return ServiceError(
        f"{url} answered {reply.status} with {text!r}; is it a sojourn service of this version?"
    )


def read_error(error: dict[str, Any]) -> SojournError:
    """The error as an exception of ours."""
    code = str(error.get("code", ""))
    message = str(error.get("message", code))
    if error.get("do"):
        message = f"{message}; {error['do']}"
    if code == "missed":
        after = error.get("after")
        return Missed(message, after if isinstance(after, int) else 0)
    if code in _ERRORS:
        return _ERRORS[code](message)
    return ServiceError(message, code)


@contextmanager
def understanding(url: str) -> Iterator[None]:
    """Raise ServiceError for a reply that is not as the protocol has it."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, SojournError) and not isinstance(error, (WrongType, OutOfRange)):
            raise
        raise ServiceError(
            f"{url} answered with something else than was asked for ({error!r}); "
            "is it a sojourn service of this version?"
        ) from error


def read_answers(value: dict[str, Any], count: int) -> list[Answer]:
    """The answers to so many rows."""
    answers = [_answer(each) for each in value["answers"]]
    if len(answers) != count:
        raise ValueError(f"{count} rows were sent, and {len(answers)} answers came")
    return answers


def _answer(value: dict[str, Any]) -> Answer:
    operation, error = value.get("operation"), value.get("error")
    return Answer(
        value["verdict"],
        value.get("at_ms"),
        None if operation is None else read_operation(operation),
        None if error is None else read_error(error),
    )


def read_operation(value: dict[str, Any]) -> Operation:
    """An operation, waiting or ended."""
    payload = value.get("payload")
    if payload is None and value.get("payload_base64") is not None:
        payload = b64decode(value["payload_base64"])
    return Operation(
        value["id"],
        [(each["key"], each["offset"]) for each in value["requires"]],
        value["timeout_ms"],
        value["needed"],
        value["class"],
        payload,
        value["traceparent"],
        status=value["status"],
        submitted_ms=value["submitted_ms"],
        at_ms=value["at_ms"],
        by_key=value["by_key"],
        number=value["number"],
    )
