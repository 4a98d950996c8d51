"""Which parser the connections have: httptools, in C, where it is installed; else h11."""

from __future__ import annotations

import asyncio

from sojourn.service.connections import Guarded, GuardedH11
from sojourn.service.limits import Limits


def protocol_for(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's protocol, guarded: with the parser in C if it is installed."""
    base: type[Guarded] = GuardedH11
    try:
        from sojourn.service.connections_httptools import GuardedHttpTools

        base = GuardedHttpTools
    except ImportError:
        pass
    return type("Connection", (base,), {"limits": limits})
