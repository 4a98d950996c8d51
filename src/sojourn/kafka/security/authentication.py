"""Authentication: how far a connection is, and what it may ask so far.

    new --SaslHandshake--> mechanism agreed --SaslAuthenticate, once or twice--> authenticated
     |                          |                                                  |      ^
     +-- ApiVersions            +-- wrong: the error is told,             its session's   |
                                    the connection closed                 time is up:     |
                                                                          closed          |
                                        SaslHandshake again (KIP-368) ---- once more -----+

With version 0 of the handshake the tokens come as they are, without a request around them. On a
connection without SASL, and on one that is done with it, both APIs answer ILLEGAL_SASL_STATE.
Sessions last `connections.max.reauth.ms` of the cluster's time, for ever if that is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn._log import log
from sojourn.kafka.apis.error_answers import Asked
from sojourn.kafka.network.reply import Reply
from sojourn.kafka.security.sasl import Exchange, NotAuthenticated, Users, exchange
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.broker import Broker, Context, Handler
    from sojourn.kafka.network.connection import Connection

_HANDSHAKE, _AUTHENTICATE, _VERSIONS = "sasl_handshake", "sasl_authenticate", "api_versions"
_REAUTHENTICATE_AFTER_MS = 1_000


class Authentication:
    """One connection's. On the listener's thread, with the agenda held."""

    def __init__(self, users: Users, mechanisms: tuple[str, ...], session_ms: int) -> None:
        self.user = ""
        self.mechanism = ""
        self._users = users
        self._mechanisms = mechanisms
        self._session_ms = session_ms
        self._exchange: Exchange | None = None
        self._mechanism_asked = ""
        self._has_asked_versions = False
        self._since_ms = 0
        self._again_ms: int | None = None  # when it last began to log in again

    @property
    def is_done(self) -> bool:
        return bool(self.user) and self._exchange is None

    @property
    def is_under_way(self) -> bool:
        """Whether a mechanism is agreed on, and the client has yet to say who it is."""
        return self._exchange is not None

    def admits(self, api_name: str, now_ms: int) -> bool:
        """Whether the connection may ask this now. If not, it is to be closed."""
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
        """Whether a handshake is in order: the first one, or one that goes on with a session."""
        if not self.is_done:
            return self._exchange is None
        if not self._session_ms:
            return False
        return self._again_ms is None or now_ms - self._again_ms >= _REAUTHENTICATE_AFTER_MS

    def begin(self, mechanism: str, now_ms: int) -> bool:
        """Agree on a mechanism, if it is one of ours."""
        if mechanism not in self._mechanisms:
            return False
        if self.is_done:
            self._again_ms = now_ms
        self._mechanism_asked = mechanism
        self._exchange = exchange(mechanism, self._users)
        return True

    @property
    def changes_mechanism(self) -> bool:
        """Whether a client that logs in again does so in another way; it may not."""
        return bool(self.mechanism) and self._mechanism_asked != self.mechanism

    def take(self, token: bytes, now_ms: int) -> tuple[bytes, int]:
        """What to say to the token, and how long the session lasts; or NotAuthenticated."""
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

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._mechanisms


class Gate:
    """What a broker with SASL serves first: it lets through who may ask."""

    def __init__(self, broker: Broker, users: Users, mechanisms: tuple[str, ...]) -> None:
        self._broker = broker
        self._users = users
        self._mechanisms = mechanisms

    def serve(self, connection: Connection, request: wire.Request) -> None:
        """Serve the request if the connection may ask that, else close it."""
        cluster = self._broker.cluster
        state = connection.authentication
        with cluster.agenda:
            if state is None:
                session_ms = self._broker.settings.number("connections.max.reauth.ms")
                state = Authentication(self._users, self._mechanisms, max(0, session_ms))
                connection.authentication = state
            is_admitted = state.admits(request.api.name, cluster.now_ms())
        if is_admitted:
            self._broker.serve(connection, request)
            return
        if not state.is_done:
            self._say_why(connection, request)
        if state.is_under_way:
            reply = Reply(connection, request.api, request.correlation_id)
            reply.last(_illegal(request, self._broker))
        else:
            connection.close()

    def _say_why(self, connection: Connection, request: wire.Request) -> None:
        log.warning(
            "kafka: connection %d from %s asks for %s before it has said who it is; it is closed: "
            "use security.protocol=%s and a sasl.mechanism of %s",
            connection.number,
            connection.host,
            request.api.name,
            self._broker.cluster.security.protocol,
            ", ".join(self._mechanisms),
        )


def _illegal(request: wire.Request, broker: Broker) -> wire.Fields:
    error = ErrorCode.illegal_sasl_state
    with broker.cluster.agenda:
        asked = Asked(request, broker)
        return asked.refused(error) or asked.merged({}, [(one, error) for one in asked.named])


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {_HANDSHAKE: handshake, _AUTHENTICATE: authenticate}


def handshake(request: Any, reply: Reply, context: Context) -> None:
    """Agree on a mechanism."""
    cluster = context.broker.cluster
    state = context.connection.authentication
    if state is None:
        log.warning(
            "kafka: connection %d from %s speaks SASL, which is not spoken here; use "
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
        reply.last({"error_code": error, "mechanisms": state.mechanisms})
        return
    if context.api_version == 0:
        context.connection.on_token = lambda token: _take_bare(token, state, context)
    reply({"mechanisms": state.mechanisms})


def authenticate(request: Any, reply: Reply, context: Context) -> None:
    """Go on with the exchange that the handshake has begun."""
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
        _say_failed(context, NotAuthenticated("another mechanism than the first time"))
        reply.hang_up()  # as Kafka does
        return
    try:
        token, session_ms = state.take(request.auth_bytes, context.broker.cluster.now_ms())
    except NotAuthenticated as error:
        _say_failed(context, error)
        reply.last(
            {
                "error_code": ErrorCode.sasl_authentication_failed,
                "error_message": str(error),
                "auth_bytes": b"",
            }
        )
    else:
        reply({"error_message": "", "auth_bytes": token, "session_lifetime": session_ms})


def _take_bare(token: bytes, state: Authentication, context: Context) -> None:
    """The same for a token that came without a request; all that can be said is goodbye."""
    connection = context.connection
    with context.broker.cluster.agenda:
        try:
            answer, _ = state.take(token, context.broker.cluster.now_ms())
        except NotAuthenticated as error:
            _say_failed(context, error)
            connection.close_soon()
            return
    if state.is_done:
        connection.on_token = None
    connection.send(len(answer).to_bytes(4, "big") + answer)


def _say_failed(context: Context, error: NotAuthenticated) -> None:
    log.warning(
        "kafka: connection %d from %s is not authenticated, and closed: %s",
        context.connection_id,
        context.client_host,
        error,
    )
