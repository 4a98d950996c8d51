"""DescribeUserScramCredentials and AlterUserScramCredentials.

As in Kafka a request alters one credential of a user: two for the same user are refused. It counts
from the next authentication on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sojourn.kafka.refusal import Refused
from sojourn.kafka.security.users import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    Users,
    scram_credential,
)
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply


def describe(request: Any, reply: Reply, context: Context) -> None:
    """Answer the mechanisms and iterations of these users, or of all."""
    users = context.broker.cluster.security.users
    counts = Counter(user.name for user in request.users or ())
    results = [_described(users, name, counts[name]) for name in counts or users.scram_names()]
    reply({"error_message": "", "results": results})


def _described(users: Users, name: str, count: int) -> Fields:
    if count > 1:
        return {
            "user": name,
            "error_code": ErrorCode.duplicate_resource,
            "error_message": "Cannot describe SCRAM credentials for the same user twice in a "
            f"single request: {name}",
        }
    credentials = users.scram_credentials(name)
    if not credentials:
        return {
            "user": name,
            "error_code": ErrorCode.resource_not_found,
            "error_message": f"Attempt to describe a user credential that does not exist: {name}",
        }
    return {
        "user": name,
        "error_message": "",
        "credential_infos": [
            {"mechanism": mechanism, "iterations": credential.iterations}
            for mechanism, credential in credentials.items()
        ],
    }


def alter(request: Any, reply: Reply, context: Context) -> None:
    """Set or delete a credential of each user; answer for each user."""
    users = context.broker.cluster.security.users
    changes: dict[str, tuple[ScramMechanism, ScramCredential | None]] = {}
    errors: dict[str, Refused] = {}
    for alteration in (*request.deletions, *request.upsertions):
        if alteration.name in errors:
            continue
        try:
            change = _change(alteration, users)
            if alteration.name in changes:
                raise Refused(
                    ErrorCode.duplicate_resource,
                    "A user credential cannot be altered twice in the same request",
                )
            changes[alteration.name] = change
        except Refused as refused:
            errors[alteration.name] = refused
    for name, change in changes.items():
        if name not in errors:
            users.set_scram_credential(name, *change)
    names = dict.fromkeys(
        alteration.name for alteration in (*request.deletions, *request.upsertions)
    )
    reply(
        {
            "results": [
                {"user": name} | (errors[name].fields if name in errors else {}) for name in names
            ]
        }
    )


def _change(alteration: Any, users: Users) -> tuple[ScramMechanism, ScramCredential | None]:
    """The mechanism and its credential, None if that is deleted; or Refused."""
    if alteration.mechanism not in tuple(ScramMechanism):
        raise Refused(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(alteration.mechanism)
    if not alteration.name:
        raise Refused(ErrorCode.unacceptable_credential, "Username must not be empty")
    is_deletion = not hasattr(alteration, "iterations")
    if is_deletion:
        if users.scram_credential(alteration.name, mechanism) is None:
            raise Refused(
                ErrorCode.resource_not_found,
                "Attempt to delete a user credential that does not exist",
            )
        return mechanism, None
    if not ITERATIONS_MIN <= alteration.iterations <= ITERATIONS_MAX:
        raise Refused(
            ErrorCode.unacceptable_credential,
            f"iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}, "
            f"got {alteration.iterations}",
        )
    if not alteration.salted_password:
        raise Refused(ErrorCode.unknown_server_error)  # as Kafka does
    return mechanism, scram_credential(
        mechanism, alteration.salt, alteration.iterations, alteration.salted_password
    )
