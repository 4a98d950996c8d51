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
from typing import Protocol

from sojourn.kafka.security.users import ScramCredential, ScramMechanism, Users, mac


class NotAuthenticated(Exception):
    """The client's token is wrong; the message, if any, is for the client."""


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

    def __init__(self, users: Users, mechanism: ScramMechanism) -> None:
        self._users = users
        self._mechanism = mechanism
        self._credential: ScramCredential | None = None
        self._client_first = self._server_first = self._nonce = ""
        self.user = ""
        self.is_complete = False

    def answer(self, token: bytes) -> bytes:
        try:
            text = token.decode()
            if self._credential is None:
                return self._first(text)
            return self._last(text, self._credential)
        except (ValueError, KeyError, IndexError, binascii.Error):
            raise NotAuthenticated from None

    def _first(self, text: str) -> bytes:
        flag, claimed, bare = text.split(",", 2)
        if flag != "n":
            raise NotAuthenticated
        fields = _fields(bare)
        user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        credential = self._users.scram_credential(user, self._mechanism)
        if credential is None:
            raise NotAuthenticated
        claimed = claimed.removeprefix("a=")
        if claimed and claimed != user:
            raise NotAuthenticated(_OTHER_ID)
        self._credential, self.user, self._client_first = credential, user, bare
        self._nonce = fields["r"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _last(self, text: str, credential: ScramCredential) -> bytes:
        hash_name = self._mechanism.hash_name
        fields = _fields(text)
        if fields["r"] != self._nonce:
            raise NotAuthenticated
        unproved = text.rpartition(",p=")[0]
        messages = f"{self._client_first},{self._server_first},{unproved}".encode()
        signature = mac(hash_name, credential.stored_key, messages)
        proof = base64.b64decode(fields["p"], validate=True)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise NotAuthenticated
        self.is_complete = True
        verifier = mac(hash_name, credential.server_key, messages)
        return b"v=" + base64.b64encode(verifier)


MECHANISMS = ("PLAIN", *(one.sasl_name for one in ScramMechanism))

_OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


def exchange(mechanism: str, users: Users) -> Exchange:
    """A new exchange by this mechanism, one of MECHANISMS."""
    if mechanism == "PLAIN":
        return Plain(users)
    return Scram(users, next(one for one in ScramMechanism if one.sasl_name == mechanism))


def _fields(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1] == "="}
