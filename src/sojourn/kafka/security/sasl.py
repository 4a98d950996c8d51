"""SASL mechanisms: PLAIN and SCRAM. Tokens in, tokens out; authentication.py sends them.

PLAIN     client   [authzid] NUL user NUL password
SCRAM     client   n,,n=user,r=nonce                      the client's first
          server   r=nonce+ours,s=salt,i=iterations
          client   c=biws,r=nonce+ours,p=proof            the client proves that it has the
          server   v=signature                              password, and so does the server
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterator, MutableMapping
from typing import NamedTuple, Protocol

from sojourn.errors import OutOfRange, WrongType

_ITERATIONS = 4096  # Kafka's default
_SALT_BYTES = 16


class NotAuthenticated(Exception):
    """The client's token is wrong; the message, if any, is for the client."""


class ScramKeys(NamedTuple):
    """The keys that SCRAM derives from a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes


class Users(MutableMapping[str, str]):
    """Names and passwords. A changed password counts from the next authentication on."""

    def __init__(self, passwords: object) -> None:
        self._passwords: dict[str, str] = {}
        self._keys: dict[tuple[str, str], ScramKeys] = {}
        for name, password in dict(passwords).items():  # type: ignore[call-overload]
            self[name] = password

    def scram_keys(self, name: str, hash_name: str) -> ScramKeys | None:
        """The keys of this user; None if there is no such user."""
        password = self._passwords.get(name)
        if password is None:
            return None
        keys = self._keys.get((name, hash_name))
        if keys is None:
            salt = secrets.token_bytes(_SALT_BYTES)
            salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, _ITERATIONS)
            client_key = _mac(hash_name, salted, b"Client Key")
            keys = self._keys[name, hash_name] = ScramKeys(
                salt,
                hashlib.new(hash_name, client_key).digest(),
                _mac(hash_name, salted, b"Server Key"),
            )
        return keys

    def __getitem__(self, name: str) -> str:
        return self._passwords[name]

    def __setitem__(self, name: str, password: str) -> None:
        if not isinstance(name, str) or not isinstance(password, str):
            raise WrongType(f"a user has a name and a password, got {name!r}: {password!r}")
        if not name or not password:
            raise OutOfRange("a user's name and password must not be empty")
        self._passwords[name] = password
        self._remove_keys(name)

    def __delitem__(self, name: str) -> None:
        del self._passwords[name]
        self._remove_keys(name)

    def _remove_keys(self, name: str) -> None:
        self._keys = {key: keys for key, keys in self._keys.items() if key[0] != name}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._passwords))

    def __len__(self) -> int:
        return len(self._passwords)

    def __repr__(self) -> str:
        return f"<Users {', '.join(self._passwords)}>"


class Exchange(Protocol):
    """One client's authentication by one mechanism."""

    user: str
    is_complete: bool

    def answer(self, token: bytes) -> bytes:
        """The answer to the client's token; or NotAuthenticated."""


class Plain:
    """The client sends its password."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user = ""
        self.is_complete = False

    def answer(self, token: bytes) -> bytes:
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3 or not all(parts[1:]):
            raise NotAuthenticated
        claimed, user, password = parts
        expected = self._users.get(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise NotAuthenticated("Authentication failed: Invalid username or password")
        if claimed and claimed != user:
            raise NotAuthenticated(_OTHER_ID)
        self.user, self.is_complete = user, True
        return b""


class Scram:
    """Client and server prove to each other that they have the password."""

    def __init__(self, users: Users, hash_name: str) -> None:
        self._users = users
        self._hash_name = hash_name
        self._keys: ScramKeys | None = None
        self._client_first = self._server_first = self._nonce = ""
        self.user = ""
        self.is_complete = False

    def answer(self, token: bytes) -> bytes:
        try:
            text = token.decode()
            return self._first(text) if self._keys is None else self._last(text, self._keys)
        except (ValueError, KeyError, IndexError, binascii.Error):
            raise NotAuthenticated from None

    def _first(self, text: str) -> bytes:
        flag, claimed, bare = text.split(",", 2)
        if flag != "n":
            raise NotAuthenticated
        fields = _fields(bare)
        user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        keys = self._users.scram_keys(user, self._hash_name)
        if keys is None:
            raise NotAuthenticated
        claimed = claimed.removeprefix("a=")
        if claimed and claimed != user:
            raise NotAuthenticated(_OTHER_ID)
        self._keys, self.user, self._client_first = keys, user, bare
        self._nonce = fields["r"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(keys.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={_ITERATIONS}"
        return self._server_first.encode()

    def _last(self, text: str, keys: ScramKeys) -> bytes:
        fields = _fields(text)
        if fields["r"] != self._nonce:
            raise NotAuthenticated
        unproved = text.rpartition(",p=")[0]
        messages = f"{self._client_first},{self._server_first},{unproved}".encode()
        signature = _mac(self._hash_name, keys.stored_key, messages)
        proof = base64.b64decode(fields["p"], validate=True)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, keys.stored_key):
            raise NotAuthenticated
        self.is_complete = True
        verifier = _mac(self._hash_name, keys.server_key, messages)
        return b"v=" + base64.b64encode(verifier)


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


def exchange(mechanism: str, users: Users) -> Exchange:
    """A new exchange by this mechanism, one of MECHANISMS."""
    if mechanism == "PLAIN":
        return Plain(users)
    return Scram(users, mechanism.removeprefix("SCRAM-").replace("-", "").lower())


def _fields(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1] == "="}


def _mac(hash_name: str, key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hash_name).digest()
