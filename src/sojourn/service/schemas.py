"""Schemas: what requests and answers look like, as the OpenAPI document tells it.

Written by hand where the wire's types say less than the rules: lengths, ranges, one or many.
"""

from __future__ import annotations

from typing import Any

from sojourn.service.limits import Limits

Schema = dict[str, Any]

_INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_COUNT = {"type": "integer", "minimum": 0}
_OR_NULL = [{"type": "null"}]
_TRACEPARENT = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def one_or_many(name: str) -> Schema:
    """A row, or an array of rows."""
    return {"oneOf": [ref(name), {"type": "array", "items": ref(name), "maxItems": "rows"}]}


def list_of(name: str, of: str, **more: Schema) -> Schema:
    """An object with a list."""
    return _object({name: {"type": "array", "items": ref(of)}, **more})


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, *_OR_NULL]}


def components(limits: Limits) -> dict[str, Schema]:
    """All schemas that have a name."""
    id = {"type": "string", "minLength": 1, "maxLength": limits.id_bytes}
    key = {"type": "string", "minLength": 1, "maxLength": limits.key_bytes}
    timeout_ms = {"type": "integer", "minimum": 0, "maximum": 10**15}
    text = {"type": "string"}
    payload = {
        "payload": {"description": "Any JSON."},
        "payload_base64": {"type": "string", "contentEncoding": "base64"},
    }
    traceparent = {"type": "string", "pattern": _TRACEPARENT}
    requirement = _object({"key": key, "offset": _INT64})
    told_requirement = _object(
        {"key": text, "offset": _INT64, "progress": _or_null(_INT64), "holds": {"type": "boolean"}},
        ("progress", "holds"),
    )
    return {
        "Requirement": requirement,
        "Submit": _object(
            {
                "id": id,
                "requires": {
                    "type": "array",
                    "items": ref("Requirement"),
                    "minItems": 1,
                    "maxItems": limits.requirements,
                },
                "timeout_ms": timeout_ms,
                "needed": _or_null({"type": "integer", "minimum": 1}),
                "class": _or_null({"type": "string", "maxLength": 1024}),
                "traceparent": _or_null(traceparent),
                **payload,
            },
            ("needed", "class", "payload", "payload_base64", "traceparent"),
        ),
        "Signal": requirement,
        "Cancel": _object({"id": id}),
        "Operation": _object(
            {
                "id": text,
                "status": {"enum": ["waiting", "completed", "expired", "cancelled"]},
                "submitted_ms": _COUNT,
                "deadline_ms": _COUNT,
                "timeout_ms": _COUNT,
                "at_ms": _or_null(_COUNT),
                "by_key": _or_null(text),
                "waited_ms": _or_null(_COUNT),
                "class": text,
                "number": _or_null(_COUNT),
                "requires": {"type": "array", "items": told_requirement},
                "needed": _COUNT,
                "traceparent": _or_null(text),
                **payload,
            },
            ("payload", "payload_base64"),
        ),
        "Answer": _object(
            {
                "verdict": {
                    "enum": ["accepted", "duplicate", "unchanged", "ended", "unknown", "refused"]
                },
                "at_ms": _or_null(_COUNT),
                "operation": ref("Operation"),
                "error": ref("Trouble"),
            },
            ("at_ms", "operation", "error"),
        ),
        "Answers": list_of("answers", "Answer"),
        "AnswerOrAnswers": {"oneOf": [ref("Answer"), ref("Answers")]},
        "Outcomes": list_of("outcomes", "Operation", last=_COUNT, next=_COUNT),
        "Operations": list_of("operations", "Operation"),
        "Key": _object({"key": text, "progress": _or_null(_INT64), "waiting": _COUNT}),
        "Position": _object({"number": _COUNT}),
        "Webhook": _object(
            {
                "url": {"type": "string", "format": "uri", "maxLength": 2048},
                "secret": {"type": "string", "minLength": 16, "maxLength": 1024},
                "batch": {"type": "integer", "minimum": 1, "maximum": 1000},
                "per_second": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
            },
            ("secret", "batch", "per_second"),
        ),
        "SubscriptionIn": _object({"webhook": _or_null(ref("Webhook"))}, ("webhook",)),
        "Subscription": _object(
            {
                "name": text,
                "position": _COUNT,
                "behind": _COUNT,
                "webhook": _or_null({"type": "object"}),
            }
        ),
        "Subscriptions": list_of("subscriptions", "Subscription"),
        "State": {"type": "object"},
        "Alive": _object({"alive": {"const": True}}),
        "Ready": _object({"ready": {"const": True}}),
        "Trouble": {
            "type": "object",
            "properties": {
                "code": text,
                "message": text,
                "found": {},
                "do": text,
                "after": _COUNT,
                "id": text,
            },
            "required": ["code", "message"],
            "additionalProperties": False,
        },
        "Error": _object({"error": ref("Trouble")}),
    }
