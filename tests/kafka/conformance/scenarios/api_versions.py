"""What a broker says it serves, and what becomes of a request that it does not."""

from __future__ import annotations

import struct

from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World


def _header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


@scenario()
def api_versions(world: World) -> None:
    for version in versions("api_versions"):
        world.ask(
            "what is served",
            "api_versions",
            version,
            client_software_name="test",
            client_software_version="1",
        )
    world.ask(
        "a bad name of the client",
        "api_versions",
        3,
        client_software_name="-",
        client_software_version="1",
    )
    world.raw("a version that is to come", _header(18, 77) + b"\0\2a\2b\0")


@scenario()
def unserved_requests(world: World) -> None:
    world.raw("an api that there is not", _header(999, 0))
    world.raw("a negative api", _header(-1, 0))
    world.raw("a version that is to come", _header(3, 99))
    world.raw("produce of long ago", _header(0, 2))
    world.raw("fetch of long ago", _header(1, 3))
    world.raw("create topics of long ago", _header(19, 1))
    world.raw("a request cut short", _header(3, 1) + b"\0\0")
