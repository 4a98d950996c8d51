"""Users whose SCRAM credentials clients describe and alter."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from tests.kafka.conformance.real import USERS
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import SASL, World

_SHA_256, _SHA_512 = 1, 2
_HASHES = {_SHA_256: "sha256", _SHA_512: "sha512"}
_MECHANISMS = {_SHA_256: "SCRAM-SHA-256", _SHA_512: "SCRAM-SHA-512"}
_SALT = b"0123456789abcdef"


def _upsertion(name: str, mechanism: int = _SHA_256, **fields: Any) -> dict[str, Any]:
    found = {"name": name, "mechanism": mechanism, "iterations": 4096, "salt": _SALT} | fields
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", _SALT, 4096)
    return {"salted_password": salted} | found


def _deletion(name: str, mechanism: int = _SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def _alter(
    world: World, step: str, upsertions: Any = (), deletions: Any = (), **fields: Any
) -> None:
    world.ask(
        step,
        "alter_user_scram_credentials",
        0,
        upsertions=upsertions,
        deletions=deletions,
        **fields,
    )


def _describe(world: World, step: str, *names: str, every: bool = False, **fields: Any) -> None:
    users = None if every else [{"name": name} for name in names]
    world.ask(step, "describe_user_scram_credentials", 0, users=users, **fields)


@scenario()
def scram_users(world: World) -> None:
    _describe(world, "everybody, of nobody", every=True)
    _describe(world, "an empty list")
    _describe(world, "somebody unknown", "nobody")
    _describe(world, "the empty name", "")
    _alter(world, "nothing")
    _alter(world, "two users", [_upsertion("ann"), _upsertion("ben", _SHA_512, iterations=8192)])
    world.eventually(
        "two users described",
        lambda answer: len(answer["results"]) == 2,
        "describe_user_scram_credentials",
        0,
        users=None,
    )
    _alter(world, "two mechanisms at once", [_upsertion("cat"), _upsertion("cat", _SHA_512)])
    for mechanism in _MECHANISMS:
        _alter(world, f"mechanism {mechanism}", [_upsertion("cat", mechanism)])
    world.eventually(
        "two mechanisms described",
        lambda answer: len(answer["results"][0]["credential_infos"]) == 2,
        "describe_user_scram_credentials",
        0,
        users=[{"name": "cat"}],
    )
    _describe(world, "one known and one unknown", "ann", "nobody")
    _describe(world, "one of them twice", "ann", "ann", "ben")
    _alter(world, "deleted", (), [_deletion("ann")])
    world.eventually(
        "deleted, described",
        lambda answer: answer["results"][0]["error_code"] != 0,
        "describe_user_scram_credentials",
        0,
        users=[{"name": "ann"}],
    )
    for step, upsertions in {
        "too few iterations": [_upsertion("dan", iterations=4095)],
        "too few iterations for the other": [_upsertion("dan", _SHA_512, iterations=4095)],
        "the most iterations": [_upsertion("eve", iterations=16384)],
        "too many iterations": [_upsertion("dan", iterations=16385)],
        "no iterations": [_upsertion("dan", iterations=0)],
        "no mechanism": [_upsertion("dan", 0)],
        "a mechanism that there is not": [_upsertion("dan", 3)],
        "a negative mechanism": [_upsertion("dan", -1)],
        "the empty name altered": [_upsertion("")],
        "an empty salt": [_upsertion("dan", salt=b"")],
        "an empty password": [_upsertion("dan", salted_password=b"")],
        "twice the same": [_upsertion("dan"), _upsertion("dan")],
        "one wrong of two": [_upsertion("dan", iterations=1), _upsertion("fay")],
        "one wrong of two of a user": [_upsertion("gus", iterations=1), _upsertion("gus", 2)],
    }.items():
        _alter(world, step, upsertions)
    for step, deletions in {
        "a user unknown": [_deletion("nobody")],
        "another mechanism of a known one": [_deletion("ben")],
        "no mechanism of a known one": [_deletion("ben", 0)],
        "a mechanism that there is not of a known one": [_deletion("ben", 9)],
        "the empty name deleted": [_deletion("")],
        "the same deleted twice": [_deletion("ben", _SHA_512), _deletion("ben", _SHA_512)],
    }.items():
        _alter(world, step, (), deletions)
    _alter(world, "altered and deleted", [_upsertion("cat")], [_deletion("cat")])
    _alter(world, "altered and the other deleted", [_upsertion("cat")], [_deletion("cat", 2)])
    _alter(world, "altered in the end", [_upsertion("zoe")])
    world.setup(
        lambda answer: answer["results"][0]["error_code"] == 0,
        "describe_user_scram_credentials",
        0,
        users=[{"name": "zoe"}],
    )
    _describe(world, "everybody in the end", every=True)


class _Login:
    """One exchange of SCRAM, by its client."""

    def __init__(self, world: World, client: str, user: str, mechanism: int = _SHA_256) -> None:
        self._world, self._client, self._hash = world, client, _HASHES[mechanism]
        self._bare = f"n={user},r=abc"
        self._send("sasl_handshake", 1, mechanism=_MECHANISMS[mechanism])
        self.first = self._send("sasl_authenticate", 2, auth_bytes=b"n,," + self._bare.encode())

    def _send(self, api: str, version: int, **fields: Any) -> Any:
        exchange = self._world.exchange(1, self._client)
        exchange.send(api, version, **fields)
        return exchange.receive()

    def token(self, password: str) -> bytes:
        """The proof, for what the server has sent."""
        server_first = bytes.fromhex(self.first["auth_bytes"]).decode()
        nonce, salt, iterations = (part[2:] for part in server_first.split(","))
        salted = hashlib.pbkdf2_hmac(
            self._hash, password.encode(), base64.b64decode(salt), int(iterations)
        )
        key = hmac.new(salted, b"Client Key", self._hash).digest()
        unproved = f"c=biws,r={nonce}"
        said = f"{self._bare},{server_first},{unproved}".encode()
        signature = hmac.new(hashlib.new(self._hash, key).digest(), said, self._hash).digest()
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def end(self, password: str) -> Any:
        return self._send("sasl_authenticate", 2, auth_bytes=self.token(password))


@scenario(config=SASL)
def scram_users_that_log_in(world: World) -> None:
    name, password = next(iter(USERS.items()))
    login = _Login(world, "admin", name)
    assert login.end(password)["error_code"] == 0
    _describe(world, "those from the start", every=True, client="admin")
    _alter(world, "a new user", [_upsertion("new")], client="admin")
    _alter(
        world,
        "a changed one",
        [_upsertion(name, iterations=5000, salted_password=b"x" * 32)],
        client="admin",
    )
    _alter(world, "a deleted one", (), [_deletion("bob", _SHA_256)], client="admin")
    world.setup(
        lambda answer: len(answer["results"]) == 3,
        "describe_user_scram_credentials",
        0,
        users=None,
        client="admin",
    )
    world.advance(200)
    _describe(world, "those in the end", every=True, client="admin")
    login = _Login(world, "new", "new")
    assert login.end("secret")["error_code"] == 0, "the new user has logged in"
    world.ask("the new user asks", "list_groups", 0, client="new")
    login = _Login(world, "wrong", "new")
    token = login.token("wrong")
    world.ask("the wrong password", "sasl_authenticate", 2, client="wrong", auth_bytes=token)
    for step, user, mechanism in [
        ("the other mechanism", "new", _SHA_512),
        ("the deleted user", "bob", _SHA_256),
        ("the deleted user by the other mechanism", "bob", _SHA_512),
        ("the changed user", name, _SHA_256),
    ]:
        login = _Login(world, step, user, mechanism)
        if login.first["error_code"] == 0:
            token = login.token(USERS.get(user, ""))
            answer = login._send("sasl_authenticate", 2, auth_bytes=token)
        else:
            answer = login.first
        world.note(step, {"error_code": answer["error_code"]})
