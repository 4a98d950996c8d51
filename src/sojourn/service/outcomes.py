"""Outcomes: a page of the feed, waiting for one if need be."""

from __future__ import annotations

from starlette.requests import Request

from sojourn.service.replies import Reply


async def page(request: Request, after: int, limit: int, wait_ms: int) -> Reply:
    """GET /v1/outcomes."""
    service = request.app.state.service
    feed = service.feed
    with feed.reading():
        told = await feed.page(after, limit)
        if not told and wait_ms and not service.is_closing:
            await service.polls.until_told(after + 1, wait_ms, request)
            told = await feed.page(after, limit)
    return outcomes_reply(told, feed.last, after)


def outcomes_reply(told: list[tuple[int, bytes]], last: int, after: int) -> Reply:
    """The page, and where to go on."""
    after = told[-1][0] if told else after
    outcomes = b",".join([each for _, each in told])
    return Reply(200, b'{"outcomes":[%b],"last":%d,"next":%d}' % (outcomes, last, after))
