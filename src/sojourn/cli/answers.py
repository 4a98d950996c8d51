"""What a service answered: lines of JSON for programs, a few words for people."""

from __future__ import annotations

import argparse
import json
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from sojourn.core.time_texts import moment_text

if TYPE_CHECKING:
    from sojourn.durable import Answer, Operation


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="JSON lines, as where the output is no terminal"
    )


def say_answers(args: argparse.Namespace, names: list[str], answers: list[Answer]) -> int:
    """A line for each; how many were refused."""
    as_json = _is_for_programs(args)
    for name, answer in zip(names, answers, strict=True):
        text = json.dumps(_answer_fields(name, answer)) if as_json else _answer_text(name, answer)
        print(text)
    sys.stdout.flush()
    return sum(answer.error is not None for answer in answers)


def say_operations(args: argparse.Namespace, operations: list[Operation]) -> None:
    """A line for each."""
    as_json = _is_for_programs(args)
    for operation in operations:
        print(json.dumps(operation_fields(operation)) if as_json else operation_text(operation))
    sys.stdout.flush()


def _is_for_programs(args: argparse.Namespace) -> bool:
    return args.json or not sys.stdout.isatty()


def _answer_fields(name: str, answer: Answer) -> dict[str, Any]:
    fields: dict[str, Any] = {"of": name, "verdict": answer.verdict, "at_ms": answer.at_ms}
    if answer.operation is not None:
        fields["operation"] = operation_fields(answer.operation)
    if answer.error is not None:
        fields["error"] = {"kind": type(answer.error).__name__, "message": str(answer.error)}
    return fields


def _answer_text(name: str, answer: Answer) -> str:
    if answer.error is not None:
        return f"{name}: refused: {answer.error}"
    if answer.operation is None:
        return f"{name}: {answer.verdict}"
    return f"{operation_text(answer.operation)} ({answer.verdict})"


def operation_fields(operation: Operation) -> dict[str, Any]:
    """The operation as the service writes it."""
    fields: dict[str, Any] = {
        "id": operation.id,
        "status": operation.status,
        "submitted_ms": operation.submitted_ms,
        "deadline_ms": operation.deadline_ms,
        "timeout_ms": operation.timeout_ms,
        "at_ms": operation.at_ms,
        "by_key": operation.by_key,
        "waited_ms": operation.waited_ms,
        "class": operation.class_,
        "number": operation.number,
        "requires": [{"key": key, "offset": offset} for key, offset in operation.requires],
        "needed": operation.needed,
        "traceparent": operation.traceparent,
    }
    if isinstance(operation.payload, bytes):
        fields["payload_base64"] = b64encode(operation.payload).decode()
    elif operation.payload is not None:
        fields["payload"] = operation.payload
    return fields


def operation_text(operation: Operation) -> str:
    """The operation in a few words."""
    class_ = f" [{operation.class_}]" if operation.class_ else ""
    if operation.at_ms is None or operation.waited_ms is None:
        return f"{operation.id}{class_}: waiting until {moment_text(operation.deadline_ms)}"
    by = "" if operation.by_key is None else f" by {operation.by_key}"
    return (
        f"{operation.number}  {operation.id}{class_}: {operation.status}{by} at "
        f"{moment_text(operation.at_ms)}, after {operation.waited_ms / 1000:,.3f} s"
    )
