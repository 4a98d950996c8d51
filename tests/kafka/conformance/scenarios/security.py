"""SASL: what a broker says to who logs in, and to who does it wrong."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import SASL, World

GOOD = b"\0alice\0alice-secret"
SESSION = {"connections.max.reauth.ms": "10000"}


def _log_in(world: World, name: str, token: bytes, mechanism: str = "PLAIN") -> Any:
    world.ask(f"{name}: handshake", "sasl_handshake", 1, client=name, mechanism=mechanism)
    return world.ask(f"{name}: token", "sasl_authenticate", 2, client=name, auth_bytes=token)


def _ask(world: World, name: str, step: str) -> None:
    world.ask(f"{name}: {step}", "list_groups", 0, client=name)


@scenario()
def sasl_on_a_plain_port(world: World) -> None:
    for version in (0, 1):
        world.ask("handshake", "sasl_handshake", version, mechanism="PLAIN")
    for version in (0, 1, 2):
        world.ask("token", "sasl_authenticate", version, auth_bytes=GOOD)


@scenario(config=SASL)
def sasl_handshakes(world: World) -> None:
    for version in (0, 1):
        world.ask(
            "a mechanism that there is not",
            "sasl_handshake",
            version,
            client=f"bad {version}",
            mechanism="GSSAPI",
        )
        world.ask(
            "the empty mechanism", "sasl_handshake", version, client=f"no {version}", mechanism=""
        )
    world.ask("a request before all", "list_groups", 0, client="early")
    world.ask("a token before all", "sasl_authenticate", 2, client="token", auth_bytes=GOOD)
    world.exchange(1, "versions").ask("api_versions", 0)  # what it says is compared elsewhere
    world.ask("handshake then", "sasl_handshake", 1, client="versions", mechanism="PLAIN")
    world.exchange(1, "twice").ask("api_versions", 0)
    world.ask("versions twice", "api_versions", 1, client="twice")
    world.ask("handshake once", "sasl_handshake", 1, client="again", mechanism="PLAIN")
    world.ask("handshake twice", "sasl_handshake", 1, client="again", mechanism="PLAIN")
    world.ask("agreed", "sasl_handshake", 1, client="middle", mechanism="PLAIN")
    world.ask("a request in the middle", "list_groups", 0, client="middle")
    world.ask("agreed too", "sasl_handshake", 1, client="metadata", mechanism="PLAIN")
    world.ask("metadata in the middle", "metadata", 9, client="metadata", topics=[{"name": "t"}])


@scenario(config=SASL)
def sasl_tokens(world: World) -> None:
    _log_in(world, "good", GOOD)
    _ask(world, "good", "a request")
    world.ask("good: handshake again", "sasl_handshake", 1, client="good", mechanism="PLAIN")
    world.ask("good: token again", "sasl_authenticate", 2, client="good", auth_bytes=GOOD)
    _ask(world, "good", "another request")
    for version in (0, 1):
        name = f"version {version}"
        world.ask(f"{name}: handshake", "sasl_handshake", 1, client=name, mechanism="PLAIN")
        world.ask(f"{name}: token", "sasl_authenticate", version, client=name, auth_bytes=GOOD)
    for name, token in {
        "wrong password": b"\0alice\0wrong",
        "nobody": b"\0nobody\0alice-secret",
        "empty": b"",
        "only a name": b"\0alice",
        "no password": b"\0alice\0",
        "no name": b"\0\0alice-secret",
        "as itself": b"alice\0alice\0alice-secret",
        "as another": b"bob\0alice\0alice-secret",
        "four parts": GOOD + b"\0more",
        "no utf-8": b"\xff\0\xfe\0\xfd",
    }.items():
        _log_in(world, name, token)
        _ask(world, name, "a request")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for name, token in {
            "nobody": b"n,,n=nobody,r=abc",
            "as another": b"n,a=bob,n=alice,r=abc",
            "empty": b"",
            "no nonce": b"n,,n=alice",
            "binding": b"y,,n=alice,r=abc",
            "garbage": b"\xff\xff",
        }.items():
            _log_in(world, f"{mechanism} {name}", token, mechanism)


@scenario(config=SASL | SESSION)
def sasl_sessions(world: World) -> None:
    _log_in(world, "good", GOOD)
    world.ask("good: too soon", "sasl_handshake", 1, client="good", mechanism="PLAIN")
    names = ("again", "other user", "other mechanism", "wrong password", "late", "silent")
    for name in names:
        _log_in(world, name, GOOD)
    world.advance(4_000)
    tokens = {
        "again": GOOD,
        "other user": b"\0bob\0bob-secret",
        "wrong password": b"\0alice\0wrong",
    }
    for name, token in tokens.items():
        world.ask(f"{name}: once more", "sasl_handshake", 1, client=name, mechanism="PLAIN")
        world.ask(f"{name}: new token", "sasl_authenticate", 2, client=name, auth_bytes=token)
    name = "other mechanism"
    world.ask(f"{name}: once more", "sasl_handshake", 1, client=name, mechanism="SCRAM-SHA-256")
    world.ask(
        f"{name}: new token", "sasl_authenticate", 2, client=name, auth_bytes=b"n,,n=alice,r=abc"
    )
    world.advance(7_000)
    _ask(world, "again", "after its first session")
    _ask(world, "silent", "after its session")
    world.ask("late: once more", "sasl_handshake", 1, client="late", mechanism="PLAIN")
    world.ask("late: new token", "sasl_authenticate", 2, client="late", auth_bytes=GOOD)
    _ask(world, "late", "a request")
