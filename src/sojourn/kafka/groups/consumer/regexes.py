r"""Subscriptions by regular expression: which topics match, and when to look again.

Kafka resolves the expressions of a group together, beside its heartbeats: the answer to the
heartbeat that brings a new one has no topics of it yet. It looks again at the earliest ten seconds
later, if an expression is not resolved or a topic was created, and at the latest after
`group.consumer.regex.refresh.interval.ms`.

Kafka uses RE2/J. What RE2 has not, such as looking ahead and references back, is refused here, too.
What Python has not is translated as far as names of topics need it:

    RE2       \Qa.b\E     [[:digit:]]     \z
    Python    a\.b        [0-9]           \Z
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any
from uuid import UUID

_REFRESH_AFTER_MS = 10_000
_NOT_IN_RE2 = {
    "ASSERT",
    "ASSERT_NOT",
    "GROUPREF",
    "GROUPREF_EXISTS",
    "ATOMIC_GROUP",
    "POSSESSIVE_REPEAT",
}


# In a bracket; names of topics are ASCII.
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
    "punct": r"!-/:-@\[-`{-~",
}
_NOTATION = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.|\[:(?P<posix>\w+):\]", re.DOTALL)


def compiled(regex: str) -> re.Pattern[str]:
    """The expression; or re.error if it is none, or RE2 has not what it uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = import_module("re._parser")
        translated = _NOTATION.sub(_in_python, regex)
        for name in _operators(parser.parse(translated)):
            if name in _NOT_IN_RE2:
                raise re.error(f"{name.lower().replace('_', ' ')} is not supported")
        return re.compile(translated)


def _in_python(notation: re.Match[str]) -> str:
    """What stands for a notation of RE2's in Python; itself, if Python has it."""
    if notation["quoted"] is not None:
        return re.escape(notation["quoted"])
    if notation["posix"] is not None:
        return _POSIX.get(notation["posix"], notation[0])
    return r"\Z" if notation[0] == r"\z" else notation[0]


def _operators(parsed: Iterable[Any]) -> Iterator[str]:
    """The names of all operators in a parsed expression, at any depth."""
    for part in parsed:
        if isinstance(part, tuple) and part and hasattr(part[0], "name"):
            yield part[0].name
        if isinstance(part, Iterable) and not isinstance(part, str):
            yield from _operators(part)


class ResolvedRegexes:
    """The expressions of one group, as far as they are resolved."""

    def __init__(self) -> None:
        self._topics: dict[str, frozenset[str]] = {}
        self._known: frozenset[UUID] = frozenset()  # the topics there were
        self._resolved_ms: int | None = None

    def topics(self, regex: str) -> frozenset[str]:
        """The topics that match; none if it is not resolved."""
        return self._topics.get(regex, frozenset())

    def __contains__(self, regex: object) -> bool:
        return regex in self._topics

    def keep(self, regexes: Collection[str]) -> None:
        """Forget all others."""
        self._topics = {one: topics for one, topics in self._topics.items() if one in regexes}
        if not self._topics:
            self._resolved_ms = None

    def are_due(
        self, regexes: Collection[str], topic_ids: Collection[UUID], now_ms: int, refresh_ms: int
    ) -> bool:
        """Whether these expressions have to be resolved now, where these topics exist."""
        if not regexes:
            return False
        if self._resolved_ms is None:
            return True
        age_ms = now_ms - self._resolved_ms
        return age_ms > _REFRESH_AFTER_MS and (
            age_ms > refresh_ms
            or not self._known.issuperset(topic_ids)
            or not self._topics.keys() >= set(regexes)
        )

    def resolve(self, regexes: Collection[str], topic_ids: Mapping[str, UUID], now_ms: int) -> bool:
        """Match the topics; whether other topics match now, of any expression."""
        before = {regex: self.topics(regex) for regex in regexes}
        for regex in regexes:
            matches = compiled(regex).fullmatch
            self._topics[regex] = frozenset(name for name in topic_ids if matches(name))
        self.keep(regexes)
        self._known = frozenset(topic_ids.values())
        self._resolved_ms = now_ms
        return before != self._topics
