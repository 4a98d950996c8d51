"""Rows: the commands of a batch call, sent in requests of bounded size, each answered by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sojourn.durable.answers import REFUSED, Answer
from sojourn.durable.checks import check_each, checked_id, checked_signal_row
from sojourn.durable.requests import Request
from sojourn.durable.submissions import checked_row

_ROWS_AT_ONCE = 2_000  # of a batch, in one request


class Rows:
    """The rows of a batch call: those that are wrong refused, the others on their way."""

    requests: list[Request]

    def __init__(self, good: list[Any], errors: list[Any], request_of: Callable[[Any], Request]):
        self._errors = errors  # for each row None, or why it was refused
        self.requests = [
            request_of(good[at : at + _ROWS_AT_ONCE]) for at in range(0, len(good), _ROWS_AT_ONCE)
        ]

    @classmethod
    def of_submissions(cls, rows: Iterable[Any]) -> Rows:
        return cls(*check_each(rows, checked_row), lambda good: Request(submissions=good))

    @classmethod
    def of_signals(cls, rows: Iterable[Any]) -> Rows:
        return cls(*check_each(rows, checked_signal_row), lambda good: Request(signals=good))

    @classmethod
    def of_cancels(cls, ids: Iterable[Any]) -> Rows:
        return cls(*check_each(ids, checked_id), lambda good: Request(cancels=good))

    def answers(self) -> list[Answer]:
        """The answers, in the order of the rows; all requests are done."""
        good: list[Answer] = []
        for request in self.requests:
            if request.error is None:
                good += request.result()
            else:
                good += [Answer(REFUSED, None, None, request.error)] * len(request)
        if len(good) == len(self._errors):
            return good
        good_answers = iter(good)
        return [
            next(good_answers) if error is None else Answer(REFUSED, None, None, error)
            for error in self._errors
        ]


def only(answers: list[Answer]) -> Answer:
    """The one answer; its error is raised."""
    answer = answers[0]
    if answer.error is not None:
        raise answer.error
    return answer
