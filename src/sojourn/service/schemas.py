"""Schemas: what requests and answers look like, as the OpenAPI document tells it.

Written by hand where the wire's types say less than the rules: lengths, ranges, one or many.
"""

from __future__ import annotations

from typing import Any

from sojourn.service.limits import Limits

Schema = dict[str, Any]

INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
COUNT = {"type": "integer", "minimum": 0}
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
    return object_of({name: {"type": "array", "items": ref(of)}, **more})


def object_of(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def or_null(schema: Schema) -> Schema:
    """That, or null."""
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
    requirement = object_of({"key": key, "offset": INT64})
    told_requirement = object_of(
        {"key": text, "offset": INT64, "progress": or_null(INT64), "holds": {"type": "boolean"}},
        ("progress", "holds"),
    )
    return {
        "Requirement": requirement,
        "Submit": object_of(
            {
                "id": id,
                "requires": {
                    "type": "array",
                    "items": ref("Requirement"),
                    "minItems": 1,
                    "maxItems": limits.requirements,
                },
                "timeout_ms": timeout_ms,
                "needed": or_null({"type": "integer", "minimum": 1}),
                "class": or_null({"type": "string", "maxLength": 1024}),
                "traceparent": or_null(traceparent),
                **payload,
            },
            ("needed", "class", "payload", "payload_base64", "traceparent"),
        ),
        "Signal": requirement,
        "Cancel": object_of({"id": id}),
        "Operation": object_of(
            {
                "id": text,
                "status": {"enum": ["waiting", "completed", "expired", "cancelled"]},
                "submitted_ms": COUNT,
                "deadline_ms": COUNT,
                "timeout_ms": COUNT,
                "at_ms": or_null(COUNT),
                "by_key": or_null(text),
                "waited_ms": or_null(COUNT),
                "class": text,
                "number": or_null(COUNT),
                "requires": {"type": "array", "items": told_requirement},
                "needed": COUNT,
                "traceparent": or_null(text),
                **payload,
            },
            ("payload", "payload_base64"),
        ),
        "Answer": object_of(
            {
                "verdict": {
                    "enum": ["accepted", "duplicate", "unchanged", "ended", "unknown", "refused"]
                },
                "at_ms": or_null(COUNT),
                "operation": ref("Operation"),
                "error": ref("Trouble"),
            },
            ("at_ms", "operation", "error"),
        ),
        "Answers": list_of("answers", "Answer"),
        "AnswerOrAnswers": {"oneOf": [ref("Answer"), ref("Answers")]},
        "Outcomes": list_of("outcomes", "Operation", last=COUNT, next=COUNT),
        "Operations": list_of("operations", "Operation"),
        "Key": object_of({"key": text, "progress": or_null(INT64), "waiting": COUNT}),
        "Position": object_of({"number": COUNT}),
        "Webhook": object_of(
            {
                "url": {"type": "string", "format": "uri", "maxLength": 2048},
                "secret": {"type": "string", "minLength": 16, "maxLength": 1024},
                "batch": {"type": "integer", "minimum": 1, "maximum": 1000},
                "per_second": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
            },
            ("secret", "batch", "per_second"),
        ),
        "SubscriptionIn": object_of({"webhook": or_null(ref("Webhook"))}, ("webhook",)),
        "Subscription": object_of(
            {
                "name": text,
                "position": COUNT,
                "behind": COUNT,
                "webhook": or_null({"type": "object"}),
            }
        ),
        "Subscriptions": list_of("subscriptions", "Subscription"),
        "Alive": object_of({"alive": {"const": True}}),
        "Ready": object_of({"ready": {"const": True}}),
        "Trouble": {
            "type": "object",
            "properties": {
                "code": text,
                "message": text,
                "found": {},
                "do": text,
                "after": COUNT,
                "id": text,
            },
            "required": ["code", "message"],
            "additionalProperties": False,
        },
        "Error": object_of({"error": ref("Trouble")}),
    }
