"""Findings: what a person on call should know first. None means that it is fine.

    kind         level          when
    not_ready    bad            the service takes no commands
    full         bad, warn      as many wait as may (bad), or nine tenths of that (warn)
    expiries     bad, warn      of a class, in the last 5 minutes and still in the last one: half of
                                what ended expired (bad), or a tenth (warn); 20 ends or more
    late         warn           p99 of lateness in the last minute above a second
    commits      warn           p99 of commits in the last minute above 200 ms
    behind       warn           a subscriber has 1,000 outcomes or more before it and has not moved
                                for a minute
    webhook      warn           a subscriber's webhook fails

Of a class it says since when its share of expiries has been a tenth or more; of a subscriber, since
when it has not moved.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sojourn.durable.answers import EXPIRED
from sojourn.service.classes import HIGH_SHARE, ClassCounts
from sojourn.service.durations import SLICE_MS
from sojourn.service.recent import Ended

BAD, WARN = "bad", "warn"
MINUTE = 60_000 // SLICE_MS  # in slices

EXPIRED_BAD = 0.5
ENOUGH_ENDED = 20
LATE_MS = 1_000
COMMIT_MS = 200
FULL_SHARE = 0.9
BEHIND = 1_000
STUCK_MS = 60_000
_KEY_SHARE = 0.2  # of the expired, to be named
_DIGITS = re.compile("[0-9]+")
_WITH_DIGITS = re.compile("[0-9A-Za-z]*[0-9][0-9A-Za-z]*")
_UUID = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_ID_LENGTH = 8


def expiries(counts: ClassCounts, from_ms: int, sample: Sequence[Ended]) -> dict[str, Any] | None:
    """What to say of a class: too much of it expires, since when, and for lack of which key."""
    ended, expired = counts.ended(), counts.count(EXPIRED)
    lately = counts.ended(MINUTE)
    if ended < ENOUGH_ENDED or expired < HIGH_SHARE * ended:
        return None
    if not lately or counts.count(EXPIRED, MINUTE) < HIGH_SHARE * lately:
        return None
    finding = {
        "kind": "expiries",
        "level": BAD if expired >= EXPIRED_BAD * ended else WARN,
        "class": counts.name,
        "expired": expired,
        "ended": ended,
        "since_ms": counts.high_since_ms,
    }
    lacked = lacked_key(each for each in sample if each.at_ms >= from_ms)
    return finding | ({"lacked": lacked} if lacked else {})


def lacked_key(sample: Iterable[Ended]) -> dict[str, Any] | None:
    """The key that most of the expired lacked, or the kind of key; None if it is none in common."""
    keys: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    expired = 0
    for each in sample:
        if each.lacked:
            expired += 1
            keys.update({key for key, _ in each.lacked})
            kinds.update({kind_of(key) for key, _ in each.lacked})
    for counted, is_kind in ((keys, False), (kinds, True)):
        for key, count in counted.most_common(1):
            if count >= max(_KEY_SHARE * expired, 2):
                return {"key": key, "is_kind": is_kind, "expired": count, "sampled": expired}
    return None


def kind_of(key: str) -> str:
    """`order-17/paid` and `order-9/paid` are of one kind, `order-#/paid`; so are random ids."""
    return _WITH_DIGITS.sub(_masked, _UUID.sub("#", key))


def _masked(word: re.Match[str]) -> str:
    is_id = word[0][0].isdigit() or len(word[0]) >= _ID_LENGTH
    return "#" if is_id else _DIGITS.sub("#", word[0])


def of_service(state: dict[str, Any]) -> list[dict[str, Any]]:
    """What to say of the service as a whole."""
    findings: list[dict[str, Any]] = []
    if state["not_ready"] is not None:
        findings.append({"kind": "not_ready", "level": BAD, "reason": state["not_ready"]})
    most = state["max_waiting"]
    if most is not None and state["waiting"] >= FULL_SHARE * most:
        level = BAD if state["waiting"] >= most else WARN
        findings.append({"kind": "full", "level": level, "waiting": state["waiting"], "most": most})
    for name, kind, most_ms in (("lateness", "late", LATE_MS), ("commit", "commits", COMMIT_MS)):
        p99_ms = state[name]["last_minute"]["p99_ms"]
        if p99_ms is not None and p99_ms > most_ms:
            findings.append({"kind": kind, "level": WARN, "p99_ms": p99_ms})
    for each in state["subscribers"]:
        stuck_ms = state["now_ms"] - each["moved_ms"]
        if each["behind"] >= BEHIND and stuck_ms >= STUCK_MS:
            findings.append({
                "kind": "behind", "level": WARN, "subscriber": each["name"],
                "behind": each["behind"], "since_ms": each["moved_ms"],
            })  # fmt: skip
        if each["error"]:
            findings.append({
                "kind": "webhook", "level": WARN, "subscriber": each["name"],
                "reason": each["error"],
            })  # fmt: skip
    return findings
