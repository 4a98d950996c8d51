"""Security: which of Kafka's four security protocols the brokers of a cluster use.

PLAINTEXT         neither
SSL               TLS, with certificates that clients have to trust
SASL_PLAINTEXT    users with passwords
SASL_SSL          both
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka.security.authentication import Authenticator
from sojourn.kafka.security.sasl import MECHANISMS
from sojourn.kafka.security.tls import Certificates, Tls
from sojourn.kafka.security.users import Users

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.network.connection import Connection

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Security:
    """A cluster's protocol, users and certificates."""

    def __init__(
        self,
        protocol: str,
        users: Mapping[str, str] | None,
        mechanisms: str,
        names: Iterable[str],
    ) -> None:
        if protocol not in PROTOCOLS:
            raise OutOfRange(f"security must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
        self.protocol = protocol
        #: Without SASL those that clients add, who cannot log in.
        self.users = Users()
        self.has_sasl = protocol.startswith("SASL")
        self.mechanisms: tuple[str, ...] = ()
        if self.has_sasl:
            if users is None:
                raise OutOfRange(f"{protocol} needs users: users={{'alice': 'secret'}}")
            if not isinstance(users, Mapping):
                raise WrongType(f"users must map names to passwords, got {users!r}")
            self.users = Users(users)
            self.mechanisms = _mechanisms(mechanisms)
        elif users:
            raise OutOfRange(f"{protocol} has no users; use SASL_PLAINTEXT or SASL_SSL")
        self.certificates = Certificates(names) if protocol.endswith("SSL") else None

    def serve(self, broker: Broker) -> Callable[[Connection, wire.Request], None]:
        """The function that serves requests of this broker's connections."""
        if not self.has_sasl:
            return broker.serve
        return Authenticator(broker, self.users, self.mechanisms).serve

    def tls(self, broker: Broker) -> Tls | None:
        """TLS for a new connection to this broker, maybe with a scripted flaw; or None."""
        if self.certificates is None:
            return None
        return Tls(self.certificates.context(broker.cluster.faults.next_flaw(broker)))

    def close(self) -> None:
        if self.certificates is not None:
            self.certificates.close()


def _mechanisms(setting: str) -> tuple[str, ...]:
    """The mechanisms of `sasl.enabled.mechanisms`; all if it is not set."""
    enabled = tuple(name.strip() for name in setting.split(",") if name.strip()) or MECHANISMS
    for name in enabled:
        if name not in MECHANISMS:
            raise OutOfRange(
                f"sasl.enabled.mechanisms can be {', '.join(MECHANISMS)} here, got {name}"
            )
    return enabled
