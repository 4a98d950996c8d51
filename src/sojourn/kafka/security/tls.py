"""TLS: certificates made on the fly, and one connection's encryption.

Each cluster has its own CA, which signs a certificate for the host names of its brokers. Clients
have to trust the CA: `ssl.ca.location`, `cafile`, … is `cluster.ca_file`. A test can have brokers
show another certificate: expired, of an untrusted CA, or for another host.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import OutOfRange, SojournError

if TYPE_CHECKING:
    from collections.abc import Iterable

_READ_BYTES = 1 << 16
_DAY = datetime.timedelta(days=1)

#: What can be wrong with a certificate.
FLAWS = ("expired", "not_yet_valid", "untrusted", "wrong_host")


class Certificates:
    """The CA of a cluster, and the certificates of its brokers."""

    def __init__(self, names: Iterable[str]) -> None:
        self._trustme = _trustme()
        self._names = sorted({*names, "localhost", "127.0.0.1", "::1"} - {"0.0.0.0", "::", ""})
        self._authority = self._trustme.CA(organization_name="Sojourn")
        self._contexts: dict[str, ssl.SSLContext] = {}
        #: The CA's certificate, PEM.
        self.ca_pem: bytes = self._authority.cert_pem.bytes()
        self._directory = Path(tempfile.mkdtemp(prefix="sojourn-kafka-"))
        #: A file with the same, there until the cluster is closed.
        self.ca_file = str(self._directory / "ca.pem")
        (self._directory / "ca.pem").write_bytes(self.ca_pem)
        self.context()

    def context(self, flaw: str = "") -> ssl.SSLContext:
        """For the next connection: with a good certificate, or with one of FLAWS."""
        context = self._contexts.get(flaw)
        if context is None:
            context = self._contexts[flaw] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._certificate(flaw).configure_cert(context)
        return context

    def _certificate(self, flaw: str) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        issue = self._authority.issue_cert
        if flaw == "expired":
            return issue(*self._names, not_before=now - 30 * _DAY, not_after=now - _DAY)
        if flaw == "not_yet_valid":
            return issue(*self._names, not_before=now + _DAY, not_after=now + 30 * _DAY)
        if flaw == "untrusted":
            return self._trustme.CA(organization_name="Nobody").issue_cert(*self._names)
        if flaw == "wrong_host":
            return issue("elsewhere.invalid")
        return issue(*self._names)

    def close(self) -> None:
        """Remove the file."""
        shutil.rmtree(self._directory, ignore_errors=True)


def _trustme() -> Any:
    try:
        import trustme
    except ImportError:
        raise SojournError(
            "TLS needs trustme, which makes the certificates: pip install 'sojourn[kafka-tls]'"
        ) from None
    return trustme


def checked_flaw(flaw: object) -> str:
    if flaw not in FLAWS:
        raise OutOfRange(f"a certificate can be {', '.join(FLAWS)}, got {flaw!r}")
    return str(flaw)


class Tls:
    """One connection's encryption: bytes of the socket in, the client's bytes out, and vice versa.

    It does not use the socket. After each `decrypt` there may be bytes `to_send`.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_handshake_done = False
        #: Whether the client has closed the TLS session.
        self.is_closed = False

    def decrypt(self, data: memoryview) -> bytes:
        """The client's bytes; none before the handshake is complete. Raises ssl.SSLError."""
        self._incoming.write(data)
        decrypted = bytearray()
        with contextlib.suppress(ssl.SSLWantReadError):
            if not self._is_handshake_done:
                self._object.do_handshake()
                self._is_handshake_done = True
            while True:
                some = self._object.read(_READ_BYTES)
                if not some:
                    self.is_closed = True
                    break
                decrypted += some
        return bytes(decrypted)

    def encrypt(self, data: bytes) -> bytes:
        """The bytes to send for these."""
        self._object.write(data)
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """What TLS itself has to send."""
        return self._outgoing.read()


_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")


def why_failed(error: ssl.SSLError) -> str:
    """What the error means and what to do; empty if unknown."""
    reason = (error.reason or "").upper()
    if reason in _NOT_TLS:
        return ": it looks like a client without TLS; use security.protocol=SSL, or SASL_SSL"
    if "UNKNOWN_CA" in reason:
        return ": the client does not accept the certificate; have it trust cluster.ca_file"
    if "ALERT" in reason:
        return ": the client does not accept the certificate"
    return ""
