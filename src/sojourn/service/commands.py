"""Commands: submits, signals and cancels, one or many in a request.

One row in, one answer out, with a status that fits. An array in, {"answers": […]} out, each row
answered for itself: one that is wrong is refused, the others go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request as HttpRequest

from sojourn.durable import Answer
from sojourn.durable.answers import ACCEPTED
from sojourn.durable.checks import checked_id, checked_signal
from sojourn.durable.payloads import PAYLOAD_DEPTH_MAX, WrittenJson
from sojourn.durable.requests import Request
from sojourn.durable.submissions import Submission, checked_submission
from sojourn.errors import SojournError
from sojourn.service import bodies
from sojourn.service.errors import Refusal, refusal_of
from sojourn.service.limits import Limits
from sojourn.service.replies import Reply, encode
from sojourn.service.wire import (
    AnswerOut,
    Cancel,
    RowDecoder,
    Signal,
    Submit,
    accepted_out,
    bad_row,
    is_many,
    operation_out,
)

_STATUS = {"accepted": 201, "duplicate": 200, "unchanged": 200, "ended": 200, "unknown": 404}
_TRACEPARENT = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_SHORT_BYTES = 4_000  # Python reads numbers of 4,300 digits


class _Command(NamedTuple):
    """How the rows of a kind are read, and become what the purgatory takes."""

    decoder: RowDecoder[Any]
    check: Callable[[Any, Limits], Any]
    request: Callable[[list[Any]], Request]


async def submit(request: HttpRequest) -> Reply:
    """POST /v1/operations."""
    return await _send(request, _SUBMIT)


async def signal(request: HttpRequest) -> Reply:
    """POST /v1/signals."""
    return await _send(request, _SIGNAL)


async def cancel(request: HttpRequest) -> Reply:
    """POST /v1/cancels."""
    return await _send(request, _CANCEL)


async def _send(request: HttpRequest, command: _Command) -> Reply:
    body = await bodies.read(request)
    if is_many(body):
        return await _send_many(request, body, command)
    row = command.decoder.one(body)
    if type(row) is Submit and row.traceparent is None:
        row.traceparent = _traceparent(request)
    limits: Limits = request.app.state.service.settings.limits
    return await _send_one(request, command.request([command.check(row, limits)]), row)


async def _send_one(request: HttpRequest, command: Request, row: msgspec.Struct) -> Reply:
    (answer,) = await request.app.state.service.sender.send(command)
    if answer.error is not None:
        raise refusal_of(answer.error)
    return Reply(_STATUS[answer.verdict], encode(_answer_out(answer, row)))


async def _send_many(request: HttpRequest, body: bytes, command: _Command) -> Reply:
    service = request.app.state.service
    limits: Limits = service.settings.limits
    good: list[Any] = []
    sent_rows: list[Any] = []  # their rows
    refused: dict[int, AnswerOut] = {}
    for at, row in enumerate(command.decoder.many(body, limits)):
        try:
            if isinstance(row, Refusal):
                raise row
            good.append(command.check(row, limits))
            sent_rows.append(row)
        except (Refusal, SojournError) as error:
            refused[at] = _refused_answer(error)
    answers: list[AnswerOut] = []
    if good:
        sent_answers = await service.sender.send(command.request(good))
        answers = [
            _answer_out(answer, row) for answer, row in zip(sent_answers, sent_rows, strict=True)
        ]
    for at, answer in refused.items():
        answers.insert(at, answer)
    return Reply(200, encode({"answers": answers}))


def _answer_out(answer: Answer, row: msgspec.Struct) -> AnswerOut:
    if answer.error is not None:
        return _refused_answer(answer.error)
    operation = answer.operation
    if operation is None:
        return AnswerOut(answer.verdict, answer.at_ms)
    if type(row) is Submit and answer.verdict == ACCEPTED:
        return AnswerOut(answer.verdict, answer.at_ms, accepted_out(row, operation))
    return AnswerOut(answer.verdict, answer.at_ms, operation_out(operation))


def _refused_answer(error: Refusal | SojournError) -> AnswerOut:
    refusal = error if isinstance(error, Refusal) else refusal_of(error)
    return AnswerOut("refused", error=refusal.as_dict())


# RowDecoder become what the purgatory takes.


def _submission(row: Submit, limits: Limits) -> Submission:
    check_id(row.id, limits)
    if len(row.requires) > limits.requirements:
        raise Refusal(
            400,
            "too_many_requirements",
            f"{len(row.requires)} requirements; {limits.requirements} are taken "
            "(limit requirements)",
            found=len(row.requires),
            do="wait for fewer keys, or let one signal stand for several",
        )
    requires = []
    for requirement in row.requires:
        check_key(requirement.key, limits)
        requires.append((requirement.key, requirement.offset))
    return checked_submission(
        row.id,
        requires,
        row.timeout_ms,
        row.needed,
        row.class_ or "",
        _payload(row, limits),
        row.traceparent,
    )


def _payload(row: Submit, limits: Limits) -> Any:
    written = memoryview(row.payload)
    payload = row.payload_base64
    if payload is not None and written:
        raise bad_row("a row has either payload or payload_base64, not both")
    size = len(written) if payload is None else len(payload)
    if size > limits.payload_bytes:
        raise Refusal(
            400,
            "payload_too_large",
            f"the payload has {size} bytes; {limits.payload_bytes} are taken (limit payload_bytes)",
            found=size,
            do="keep it elsewhere, and its address here",
        )
    if payload is not None or not written:
        return payload
    try:
        value = msgspec.json.decode(written)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise bad_row(f"the payload cannot be read as JSON: {error}") from None
    row.payload = msgspec.Raw(b"" if value is None else encode(value))  # as it will be told
    if type(value) in (dict, list) and _is_harmless(written):
        return WrittenJson(row.payload)
    return value


def _is_harmless(written: memoryview) -> bool:
    """Whether it is too short to have a number too long, or parts too deep in each other."""
    if len(written) > _SHORT_BYTES:
        return False
    text = bytes(written)
    return text.count(b"[") + text.count(b"{") <= PAYLOAD_DEPTH_MAX


def _signal(row: Signal, limits: Limits) -> tuple[str, int]:
    check_key(row.key, limits)
    return checked_signal(row.key, row.offset)


def _cancel(row: Cancel, limits: Limits) -> str:
    check_id(row.id, limits)
    return checked_id(row.id)


_SUBMIT = _Command(RowDecoder(Submit), _submission, lambda rows: Request(submissions=rows))
_SIGNAL = _Command(RowDecoder(Signal), _signal, lambda rows: Request(signals=rows))
_CANCEL = _Command(RowDecoder(Cancel), _cancel, lambda rows: Request(cancels=rows))


def check_id(id: str, limits: Limits) -> None:
    """Refuse an id that is too long."""
    _check_size(id, "id", "id_too_long", limits.id_bytes)


def check_key(key: str, limits: Limits) -> None:
    """Refuse a key that is too long."""
    _check_size(key, "key", "key_too_long", limits.key_bytes)


def _check_size(text: str, what: str, code: str, most_bytes: int) -> None:
    if 4 * len(text) <= most_bytes:  # whatever is in it
        return
    size = len(text.encode(errors="surrogatepass"))
    if size > most_bytes:
        raise Refusal(
            400,
            code,
            f"the {what} has {size} bytes; {most_bytes} are taken (limit {what}_bytes)",
            found=size,
            do=f"use a shorter {what}",
        )


def _traceparent(request: HttpRequest) -> str | None:
    """The header, if it is one: a broken one is no error, says W3C."""
    for name, value in request.scope["headers"]:
        if name == b"traceparent":
            return value.decode() if _TRACEPARENT.fullmatch(value) else None
    return None
