"""Users: their passwords, and the SCRAM credentials that follow from these or that clients set.

password given to the cluster     PLAIN, and a credential of each SCRAM mechanism
AlterUserScramCredentials         one SCRAM credential, and no password; PLAIN stays as it was
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from collections.abc import Iterator, MutableMapping
from typing import NamedTuple

from sojourn.errors import OutOfRange, WrongType

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384  # Kafka's
_SALT_BYTES = 16


class ScramMechanism(enum.IntEnum):
    """The SCRAM mechanisms, by their numbers in the protocol."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def hash_name(self) -> str:
        return self.name.replace("_", "").lower()


class ScramCredential(NamedTuple):
    """What a broker keeps of a password, for one mechanism."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def scram_credential(
    mechanism: ScramMechanism, salt: bytes, iterations: int, salted_password: bytes
) -> ScramCredential:
    """The credential for a password that was salted already."""
    hash_name = mechanism.hash_name
    client_key = mac(hash_name, salted_password, b"Client Key")
    return ScramCredential(
        salt,
        iterations,
        hashlib.new(hash_name, client_key).digest(),
        mac(hash_name, salted_password, b"Server Key"),
    )


class Users(MutableMapping[str, str]):
    """Names and passwords. A changed password counts from the next authentication on."""

    def __init__(self, passwords: object = ()) -> None:
        self._passwords: dict[str, str] = {}
        # Derived from passwords when first needed, set by clients, or None if they deleted it.
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential | None] = {}
        for name, password in dict(passwords).items():  # type: ignore[call-overload]
            self[name] = password

    # SCRAM.

    def scram_credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """This user's credential; None if there is none."""
        if (name, mechanism) in self._credentials:
            return self._credentials[name, mechanism]
        password = self._passwords.get(name)
        if password is None:
            return None
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, ITERATIONS_MIN)
        credential = scram_credential(mechanism, salt, ITERATIONS_MIN, salted)
        self._credentials[name, mechanism] = credential
        return credential

    def set_scram_credential(
        self, name: str, mechanism: ScramMechanism, credential: ScramCredential | None
    ) -> None:
        """Set this user's credential, or remove it; the password, if there is one, stays."""
        self._credentials[name, mechanism] = credential

    def scram_credentials(self, name: str) -> dict[ScramMechanism, ScramCredential]:
        """All credentials of this user."""
        by_mechanism = {one: self.scram_credential(name, one) for one in ScramMechanism}
        return {
            one: credential for one, credential in by_mechanism.items() if credential is not None
        }

    def scram_names(self) -> list[str]:
        """The names of all users with a credential."""
        names = dict.fromkeys([*self._passwords, *(name for name, _ in self._credentials)])
        return [name for name in names if self.scram_credentials(name)]

    # Passwords.

    def __getitem__(self, name: str) -> str:
        return self._passwords[name]

    def __setitem__(self, name: str, password: str) -> None:
        if not isinstance(name, str) or not isinstance(password, str):
            raise WrongType(f"a user has a name and a password, got {name!r}: {password!r}")
        if not name or not password:
            raise OutOfRange("a user's name and password must not be empty")
        self._passwords[name] = password
        self._remove_credentials(name)

    def __delitem__(self, name: str) -> None:
        del self._passwords[name]
        self._remove_credentials(name)

    def _remove_credentials(self, name: str) -> None:
        self._credentials = {
            key: credential for key, credential in self._credentials.items() if key[0] != name
        }

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._passwords))

    def __len__(self) -> int:
        return len(self._passwords)

    def __repr__(self) -> str:
        return f"<Users {', '.join(self._passwords)}>"


def mac(hash_name: str, key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hash_name).digest()
