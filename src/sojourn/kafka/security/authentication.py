"""SASL authentication of a connection: its steps, and which requests each step allows.

    new --SaslHandshake--> mechanism agreed --SaslAuthenticate, once or twice--> authenticated
     |                          |                                                  |      ^
     +-- ApiVersions            +-- wrong: an error,                      the session     |
                                    then closed                           ends: closed    |
                                                                                          |
                                        SaslHandshake again (KIP-368) ---- once more -----+

With version 0 of the handshake the tokens come without a request around them. On a connection
without SASL, and on one that is authenticated, both APIs answer ILLEGAL_SASL_STATE. Sessions last
`connections.max.reauth.ms` on the cluster's clock; 0 has no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn._log import log
from sojourn.kafka.apis.error_answers import ErrorAnswers
from sojourn.kafka.reply import Reply
from sojourn.kafka.security.sasl import Exchange, NotAuthenticated, exchange
from sojourn.kafka.security.users import Users
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.broker import Broker, Context
    from sojourn.kafka.network.connection import Connection

_HANDSHAKE, _AUTHENTICATE, _VERSIONS = "sasl_handshake", "sasl_authenticate", "api_versions"
_REAUTHENTICATE_AFTER_MS = 1_000


class Authentication:
    """One connection's state. On the listener's thread, with the agenda held."""

    def __init__(self, users: Users, mechanisms: tuple[str, ...], session_ms: int) -> None:
        self.user = ""
        self.mechanism = ""
        self._users = users
        self.mechanisms = mechanisms
        self._session_ms = session_ms
        self._exchange: Exchange | None = None
        self._mechanism_asked = ""
        self._has_asked_versions = False
        self._since_ms = 0
        self._reauthenticated_ms: int | None = None  # when it last began to re-authenticate

    @property
    def is_done(self) -> bool:
        return bool(self.user) and self._exchange is None

    @property
    def is_under_way(self) -> bool:
        """Whether a mechanism is agreed, and the client has not authenticated yet."""
        return self._exchange is not None

    def allows(self, api_name: str, now_ms: int) -> bool:
        """Whether the connection may send this request now. If not, it has to be closed."""
        if self.is_done:
            is_over = self._session_ms and now_ms - self._since_ms > self._session_ms
            return not is_over or api_name == _HANDSHAKE
        if self._exchange is not None:
            return api_name == _AUTHENTICATE
        if api_name == _VERSIONS and not self._has_asked_versions:
            self._has_asked_versions = True
            return True
        return api_name == _HANDSHAKE

    def can_begin(self, now_ms: int) -> bool:
        """Whether a handshake is allowed: the first one, or one that renews the session."""
        if not self.is_done:
            return self._exchange is None
        if not self._session_ms:
            return False
        return (
            self._reauthenticated_ms is None
            or now_ms - self._reauthenticated_ms >= _REAUTHENTICATE_AFTER_MS
        )

    def begin(self, mechanism: str, now_ms: int) -> bool:
        """Agree on a mechanism, if it is enabled."""
        if mechanism not in self.mechanisms:
            return False
        if self.is_done:
            self._reauthenticated_ms = now_ms
        self._mechanism_asked = mechanism
        self._exchange = exchange(mechanism, self._users)
        return True

    @property
    def changes_mechanism(self) -> bool:
        """Whether a client re-authenticates by another mechanism, which is not allowed."""
        return bool(self.mechanism) and self._mechanism_asked != self.mechanism

    def evaluate(self, token: bytes, now_ms: int) -> tuple[bytes, int]:
        """The answer to the token, and how long the session lasts; or NotAuthenticated."""
        if self._exchange is None:
            raise NotAuthenticated
        try:
            answer = self._exchange.answer(token)
        except NotAuthenticated as error:
            if error.args:
                raise
            when = "re-authentication" if self.user else "authentication"
            raise NotAuthenticated(
                f"Authentication failed during {when} due to invalid credentials with SASL "
                f"mechanism {self._mechanism_asked}"
            ) from None
        if not self._exchange.is_complete:
            return answer, 0
        if self.user and self.user != self._exchange.user:
            raise NotAuthenticated(
                f"Cannot change principals during re-authentication from User.{self.user}: "
                f"User.{self._exchange.user}"
            )
        self.user, self.mechanism = self._exchange.user, self._mechanism_asked
        self._exchange = None
        self._since_ms = now_ms
        return answer, self._session_ms


class Authenticator:
    """Serves a broker's requests from authenticated connections, and closes the others."""

    def __init__(self, broker: Broker, users: Users, mechanisms: tuple[str, ...]) -> None:
        self._broker = broker
        self._users = users
        self._mechanisms = mechanisms

    def serve(self, connection: Connection, request: wire.Request) -> None:
        """Serve the request if the connection may send it, else close the connection."""
        cluster = self._broker.cluster
        state = connection.authentication
        with cluster.agenda:
            if state is None:
                session_ms = self._broker.settings.number("connections.max.reauth.ms")
                state = Authentication(self._users, self._mechanisms, max(0, session_ms))
                connection.authentication = state
            is_allowed = state.allows(request.api.name, cluster.now_ms())
        if is_allowed:
            self._broker.serve(connection, request)
            return
        if not state.is_done:
            self._log_refusal(connection, request)
        if state.is_under_way:
            reply = Reply(connection, request.api, request.correlation_id)
            reply.send_last(_illegal_state(request, self._broker))
        else:
            connection.close()

    def _log_refusal(self, connection: Connection, request: wire.Request) -> None:
        log.warning(
            "kafka: connection %d from %s sends %s before it is authenticated; it is closed: "
            "use security.protocol=%s and a sasl.mechanism of %s",
            connection.number,
            connection.host,
            request.api.name,
            self._broker.cluster.security.protocol,
            ", ".join(self._mechanisms),
        )


def _illegal_state(request: wire.Request, broker: Broker) -> wire.Fields:
    error = ErrorCode.illegal_sasl_state
    with broker.cluster.agenda:
        answers = ErrorAnswers(request, broker)
        return answers.whole(error) or answers.merge({}, [(item, error) for item in answers.items])


def handshake(request: Any, reply: Reply, context: Context) -> None:
    """Agree on a mechanism."""
    cluster = context.broker.cluster
    state = context.connection.authentication
    if state is None:
        log.warning(
            "kafka: connection %d from %s uses SASL, which this cluster does not; use "
            "security.protocol=%s",
            context.connection_id,
            context.client_host,
            cluster.security.protocol,
        )
    if state is None or not state.can_begin(cluster.now_ms()):
        reply({"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []})
        return
    if not state.begin(request.mechanism, cluster.now_ms()):
        error = ErrorCode.unsupported_sasl_mechanism
        reply.send_last({"error_code": error, "mechanisms": state.mechanisms})
        return
    if context.api_version == 0:
        context.connection.on_token = lambda token: _evaluate_bare(token, state, context)
    reply({"mechanisms": state.mechanisms})


def authenticate(request: Any, reply: Reply, context: Context) -> None:
    """Continue the exchange that the handshake has begun."""
    state = context.connection.authentication
    if state is None or state.is_done:
        reply(
            {
                "error_code": ErrorCode.illegal_sasl_state,
                "error_message": "SaslAuthenticate request received after successful "
                "authentication",
                "auth_bytes": b"",
            }
        )
        return
    if state.changes_mechanism:
        _log_failure(context, NotAuthenticated("another mechanism than the first time"))
        reply.hang_up()  # as Kafka does
        return
    try:
        token, session_ms = state.evaluate(request.auth_bytes, context.broker.cluster.now_ms())
    except NotAuthenticated as error:
        _log_failure(context, error)
        reply.send_last(
            {
                "error_code": ErrorCode.sasl_authentication_failed,
                "error_message": str(error),
                "auth_bytes": b"",
            }
        )
    else:
        reply({"error_message": "", "auth_bytes": token, "session_lifetime": session_ms})


def _evaluate_bare(token: bytes, state: Authentication, context: Context) -> None:
    """Evaluate a token that came without a request; on failure the connection is closed."""
    connection = context.connection
    with context.broker.cluster.agenda:
        try:
            answer, _ = state.evaluate(token, context.broker.cluster.now_ms())
        except NotAuthenticated as error:
            _log_failure(context, error)
            connection.close_soon()
            return
    if state.is_done:
        connection.on_token = None
    connection.send([len(answer).to_bytes(4, "big"), answer])


def _log_failure(context: Context, error: NotAuthenticated) -> None:
    log.warning(
        "kafka: connection %d from %s is not authenticated, and closed: %s",
        context.connection_id,
        context.client_host,
        error,
    )
