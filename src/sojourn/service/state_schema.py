"""The schema of `GET /v1/state`, for the OpenAPI document; docs/dashboard.md says what it means."""

from __future__ import annotations

from typing import Any

from sojourn.service.schemas import COUNT, INT64, Schema, object_of, or_null

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_COUNTS = {"type": "array", "items": COUNT}
_STATUSES = ("completed", "expired", "cancelled")
_COUNTED = ("submitted", "signals", *_STATUSES)


def state_schema() -> Schema:
    return object_of(
        {
            "now_ms": INT64,
            "started_ms": INT64,
            "counted_from_ms": INT64,
            "not_ready": or_null(_TEXT),
            "waiting": COUNT,
            "max_waiting": or_null(COUNT),
            "rates": object_of(
                {"from_ms": INT64, "step_ms": COUNT, **dict.fromkeys(_COUNTED, _COUNTS)}
            ),
            "totals": object_of(dict.fromkeys(_COUNTED, COUNT)),
            **dict.fromkeys(("waited", "lateness", "commit"), _durations()),
            "classes": object_of(
                {
                    "from_ms": INT64,
                    "step_ms": COUNT,
                    "rows": _list(_class()),
                    "others": or_null(_class()),
                    "advisor": _TEXT,
                    "late_known_within_ms": _NUMBER,
                }
            ),
            "inspection": or_null(_inspection()),
            "subscribers": _list(
                object_of(
                    {
                        "name": _TEXT,
                        "position": COUNT,
                        "behind": COUNT,
                        "moved_ms": INT64,
                        "has_webhook": {"type": "boolean"},
                        "error": or_null(_TEXT),
                    }
                )
            ),
            "outcomes": object_of({"first": COUNT, "last": COUNT}),
            "file_bytes": COUNT,
            "findings": _list(_finding()),
        }
    )


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _durations() -> Schema:
    some = or_null(_NUMBER)
    return object_of(
        {
            "over_ms": COUNT,
            "count": COUNT,
            "p50_ms": some,
            "p99_ms": some,
            "max_ms": some,
            "last_minute": object_of({"count": COUNT, "p99_ms": some}),
        }
    )


def _class() -> Schema:
    advice = object_of(
        {
            "verdict": {"enum": ["tight", "fits", "long", "mixed", "unknown"]},
            "says": _TEXT,
            "rests_on": COUNT,
            "sampled": COUNT,
            "since_ms": INT64,
            **dict.fromkeys(("timeout_ms", "for_99_ms", "for_999_ms"), or_null(COUNT)),
        }
    )
    return object_of(
        {
            "name": or_null(_TEXT),
            **dict.fromkeys(_STATUSES, COUNT),
            "ended_by_step": _COUNTS,
            "expired_by_step": _COUNTS,
            "is_sampled": {"type": "boolean"},
            "advice": or_null(advice),
        }
    )


def _inspection() -> Schema:
    return object_of(
        {
            "at_ms": INT64,
            "took_ms": _NUMBER,
            "known_keys": COUNT,
            "keys": _list(object_of({"key": _TEXT, "waiting": COUNT, "progress": or_null(INT64)})),
            "oldest": _list(
                object_of(
                    {"id": _TEXT, "class": _TEXT, "submitted_ms": INT64, "deadline_ms": INT64}
                )
            ),
            "wheel": _list(object_of({"tick_ms": COUNT, "counts": _COUNTS})),
        }
    )


def _finding() -> Schema:
    """What belongs to it depends on its kind."""
    lacked = object_of(
        {"key": _TEXT, "is_kind": {"type": "boolean"}, "expired": COUNT, "sampled": COUNT}
    )
    more: dict[str, Any] = {
        "reason": _TEXT,
        "waiting": COUNT,
        "most": COUNT,
        "p99_ms": _NUMBER,
        "subscriber": _TEXT,
        "behind": COUNT,
        "since_ms": or_null(INT64),
        "class": or_null(_TEXT),
        "expired": COUNT,
        "ended": COUNT,
        "lacked": lacked,
    }
    kinds = ["not_ready", "full", "late", "commits", "behind", "webhook", "expiries"]
    return object_of(
        {"kind": {"enum": kinds}, "level": {"enum": ["bad", "warn"]}, **more}, tuple(more)
    )
