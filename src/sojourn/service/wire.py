"""The wire: what stands in requests and answers, and how it becomes commands and comes back.

Requests are decoded straight into these Structs. A body that is as it should be costs one pass; in
one with a bad row each row is decoded by itself, so that the others go on.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from sojourn.durable import Operation
from sojourn.service.errors import Refusal
from sojourn.service.limits import Limits

Row = TypeVar("Row", bound=Struct)


class Requirement(Struct, gc=False, forbid_unknown_fields=True):
    """A key, and how far it has to come."""

    key: str
    offset: int


class Submit(Struct, gc=False, forbid_unknown_fields=True):
    """An operation to wait for."""

    id: str
    requires: list[Requirement]
    timeout_ms: int
    needed: int | None = None
    class_: str | None = field(name="class", default=None)
    payload: Raw = Raw()
    payload_base64: bytes | None = None
    traceparent: str | None = None


class Signal(Struct, gc=False, forbid_unknown_fields=True):
    """News: the key has come so far."""

    key: str
    offset: int


class Cancel(Struct, gc=False, forbid_unknown_fields=True):
    """An operation to cancel."""

    id: str


class Position(Struct, gc=False, forbid_unknown_fields=True):
    """How far a subscriber has come."""

    number: int


class OperationOut(Struct, gc=False, rename={"class_": "class"}):
    """An operation, waiting or ended."""

    id: str
    status: str
    submitted_ms: int
    deadline_ms: int
    timeout_ms: int
    at_ms: int | None
    by_key: str | None
    waited_ms: int | None
    class_: str
    number: int | None
    requires: list[Any]  # as Requirement
    needed: int
    traceparent: str | None
    payload: Any = UNSET
    payload_base64: str | UnsetType = UNSET


class AnswerOut(Struct, gc=False, omit_defaults=True):
    """What became of one row."""

    verdict: str
    at_ms: int | None = None
    operation: OperationOut | None = None
    error: dict[str, Any] | None = None


class RowDecoder(Generic[Row]):
    """Decodes the rows of a kind, one or many, each for itself."""

    def __init__(self, kind: type[Row]) -> None:
        self._one: msgspec.json.Decoder[Row] = msgspec.json.Decoder(kind)
        self._many: msgspec.json.Decoder[list[Row]] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]

    def one(self, body: bytes) -> Row:
        """The only row."""
        try:
            return self._one.decode(body)
        except msgspec.ValidationError as error:
            raise bad_row(str(error)) from None
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise bad_json(error) from None

    def many(self, body: bytes, limits: Limits) -> list[Row | Refusal]:
        """The rows, or for each that is wrong what is wrong with it."""
        try:
            rows: list[Any] = self._many.decode(body)
        except msgspec.ValidationError:
            rows = self._one_by_one(body)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise bad_json(error) from None
        if len(rows) > limits.rows:
            raise Refusal(
                413,
                "too_many_rows",
                f"the body has {len(rows)} rows; {limits.rows} are taken (limit rows)",
                found=len(rows),
                do="send fewer rows at once",
            )
        return rows

    def _one_by_one(self, body: bytes) -> list[Row | Refusal]:
        try:
            raw_rows = _RAW_ROWS.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise bad_json(error) from None
        rows: list[Row | Refusal] = []
        for raw in raw_rows:
            try:
                rows.append(self.one(raw))
            except Refusal as refusal:
                rows.append(refusal)
        return rows


_RAW_ROWS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])


def is_many(body: bytes) -> bool:
    """Whether the body is an array."""
    return body.lstrip()[:1] == b"["


def bad_json(error: Exception) -> Refusal:
    return Refusal(
        400, "bad_json", f"the body cannot be read as JSON: {error}", do="send valid JSON, UTF-8"
    )


def bad_row(message: str) -> Refusal:
    return Refusal(400, "bad_row", message, do="see /openapi.json for what a row has")


def accepted_out(row: Submit, operation: Operation) -> OperationOut:
    """The same for one that was just accepted: what was submitted need not be read again."""
    submitted_ms = operation.submitted_ms
    out = OperationOut(
        row.id,
        operation.status,
        submitted_ms,
        submitted_ms + row.timeout_ms,
        row.timeout_ms,
        operation.at_ms,
        operation.by_key,
        operation.waited_ms,
        row.class_ or "",
        operation.number,
        row.requires,
        row.needed or len(row.requires),
        row.traceparent,
    )
    if row.payload_base64 is not None:
        out.payload_base64 = b64encode(row.payload_base64).decode()
    elif len(row.payload):
        out.payload = row.payload
    return out


def operation_out(operation: Operation) -> OperationOut:
    """The operation as it is told."""
    requires = [Requirement(key, offset) for key, offset in operation.requires]
    out = OperationOut(
        operation.id,
        operation.status,
        operation.submitted_ms,
        operation.deadline_ms,
        operation.timeout_ms,
        operation.at_ms,
        operation.by_key,
        operation.waited_ms,
        operation.class_,
        operation.number,
        requires,
        operation.needed,
        operation.traceparent,
    )
    payload = operation.payload
    if payload is not None:
        if isinstance(payload, bytes):
            out.payload_base64 = b64encode(payload).decode()
        else:
            out.payload = payload
    return out
