"""Outcomes: a page of the feed, waiting for one if need be."""

from __future__ import annotations

from starlette.requests import Request

from sojourn.service.replies import Reply


async def page(request: Request, after: int, limit: int, wait_ms: int) -> Reply:
    """GET /v1/outcomes."""
    return await outcomes_after(request, after, limit, wait_ms)


async def outcomes_after(request: Request, after: int, limit: int, wait_ms: int) -> Reply:
    """Outcomes above a number; if there are none yet, wait for one."""
    service = request.app.state.service
    with service.feed.reading():
        page = await service.feed.page(after, limit)
        if not page and wait_ms and not service.is_closing:
            await service.polls.until_told(after + 1, wait_ms, request)
            page = await service.feed.page(after, limit)
    after = page[-1][0] if page else after
    outcomes = b",".join([written for _, written in page])
    last = service.feed.last
    return Reply(200, b'{"outcomes":[%b],"last":%d,"next":%d}' % (outcomes, last, after))
