"""Tokens: who may do what.

A token file has a line for each token: its scopes, and the token.

    # scopes        token
    read            3f1c9d0e8b7a49d2a6f5e4c3b2a19087
    read,write      90817263544536271809f0e1d2c3b4a5

Scopes are `read`, `write` and `admin`; admin includes the others, write does not include read.
Tokens are compared in constant time and never logged: what is kept is their SHA-256.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

from sojourn.errors import BadFile
from sojourn.service.errors import Refusal

READ, WRITE, ADMIN = "read", "write", "admin"
SCOPES = frozenset({READ, WRITE, ADMIN})

_SHORTEST = 16


class Tokens:
    """The tokens that are known; without any, nobody is asked for one."""

    def __init__(self, scopes_by_token: dict[str, frozenset[str]] | None = None) -> None:
        self._known = [
            (sha256(token.encode()).digest(), scopes)
            for token, scopes in (scopes_by_token or {}).items()
        ]

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """The tokens of a file. Errors name the line, never what stands in it."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"the token file {path} cannot be read: {error}") from None
        scopes_by_token: dict[str, frozenset[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            scopes, *rest = line.split()
            token = rest[0] if len(rest) == 1 else ""
            names = frozenset(scopes.split(","))
            if not token or not names <= SCOPES or not token.isascii():
                raise BadFile(
                    f"line {number} of {path} is not `scope[,scope] TOKEN`; "
                    f"scopes are {', '.join(sorted(SCOPES))}"
                )
            if len(token) < _SHORTEST:
                raise BadFile(
                    f"the token in line {number} of {path} has less than {_SHORTEST} characters; "
                    "make one with: openssl rand -hex 16"
                )
            if token in scopes_by_token:
                raise BadFile(f"the token in line {number} of {path} is there twice")
            scopes_by_token[token] = names | SCOPES if ADMIN in names else names
        if not scopes_by_token:
            raise BadFile(f"the token file {path} has no token; a line is `scope[,scope] TOKEN`")
        return cls(scopes_by_token)

    def __bool__(self) -> bool:
        return bool(self._known)

    def check(self, headers: list[tuple[bytes, bytes]], scope: str) -> None:
        """Refuse unless the request has a token with this scope."""
        if not self._known:
            return
        authorizations = [value for name, value in headers if name == b"authorization"]
        if len(authorizations) != 1 or authorizations[0][:7].lower() != b"bearer ":
            raise Refusal(
                401,
                "unauthorized",
                "the request has no token",
                do="send the header Authorization: Bearer TOKEN",
                headers=[(b"www-authenticate", b"Bearer")],
            )
        digest = sha256(authorizations[0][7:].strip()).digest()
        scopes: frozenset[str] | None = None
        for its_digest, its_scopes in self._known:  # all of them: the time it takes tells nothing
            if hmac.compare_digest(its_digest, digest):
                scopes = its_scopes
        if scopes is None:
            raise Refusal(
                401,
                "unauthorized",
                "the token is not known here",
                do="use a token of the service's token file",
                headers=[(b"www-authenticate", b'Bearer error="invalid_token"')],
            )
        if scope not in scopes:
            raise Refusal(
                403,
                "forbidden",
                f"this needs the scope {scope}",
                found=sorted(scopes),
                do=f"use a token with the scope {scope}",
            )
