"""Pages: the dashboard's files, read once, with what a browser may do with them.

Nothing from outside, nothing inline, not in a frame: whatever ids, keys or payloads contain, a
browser runs only these files.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request

from sojourn.service.errors import Refusal
from sojourn.service.replies import Reply

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers hide the origin of a write
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


@cache
def _files() -> dict[str, tuple[bytes, bytes]]:
    """Each file's type and content."""
    assets = files("sojourn.service.dashboard") / "assets"
    assets_by_name = {}
    for entry in assets.iterdir():
        content_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if content_type is not None:
            assets_by_name[entry.name] = content_type, entry.read_bytes()
    return assets_by_name


def _page(name: str) -> Reply:
    content_type, body = _files()[name]
    return Reply(200, body, _HEADERS, content_type=(b"content-type", content_type))


async def index(request: Request) -> Reply:
    """GET /: the page. It has no numbers in it, so it needs no token."""
    return _page("index.html")


async def file(request: Request, name: str) -> Reply:
    """GET /dashboard/{name}: a file of the page's."""
    if name not in _files():
        raise Refusal(404, "not_found", "the dashboard has no file of that name", found=name[:200])
    return _page(name)
