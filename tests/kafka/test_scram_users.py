"""Clients add, change and remove users; the next authentication counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")
pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from sojourn.kafka import Cluster
from tests.until import PATIENCE_S, until

_MECHANISMS = {
    ScramMechanism.SCRAM_SHA_256: "SCRAM-SHA-256",
    ScramMechanism.SCRAM_SHA_512: "SCRAM-SHA-512",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(security="SASL_PLAINTEXT", users={"admin": "secret"}) as one:
        one.create_topic("t")
        yield one


def _settings(cluster: Cluster, user: str, password: str, mechanism: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "reconnect.backoff.ms": 10,
        "log_level": 0,
    }


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient(_settings(cluster, "admin", "secret", "PLAIN"))


def _alter(admin: AdminClient, *alterations: Any) -> None:
    for done in admin.alter_user_scram_credentials(list(alterations)).values():
        done.result(PATIENCE_S)


def _upsertion(user: str, mechanism: Any, password: str) -> UserScramCredentialUpsertion:
    info = ScramCredentialInfo(mechanism, 4096)
    return UserScramCredentialUpsertion(user, info, password.encode())


def _can_write(cluster: Cluster, user: str, password: str, mechanism: str) -> bool:
    answers: list[bool] = []

    def on_error(error: KafkaError) -> None:  # of others there may be some before
        if error.code() == KafkaError._AUTHENTICATION:
            answers.append(False)

    producer = Producer(_settings(cluster, user, password, mechanism) | {"error_cb": on_error})
    producer.produce("t", b"one", on_delivery=lambda error, _: answers.append(error is None))
    until(lambda: producer.poll(0.01) >= 0 and answers, "an answer")
    producer.purge()
    return answers[0]


@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_a_user_that_a_client_adds_can_log_in(
    cluster: Cluster, admin: AdminClient, mechanism: ScramMechanism
) -> None:
    name = _MECHANISMS[mechanism]
    _alter(admin, _upsertion("ann", mechanism, "her-secret"))
    assert _can_write(cluster, "ann", "her-secret", name)
    assert not _can_write(cluster, "ann", "wrong", name)
    assert not _can_write(cluster, "ann", "her-secret", "PLAIN")


def test_a_changed_credential_counts_and_the_password_stays_for_plain(
    cluster: Cluster, admin: AdminClient
) -> None:
    _alter(admin, _upsertion("admin", ScramMechanism.SCRAM_SHA_256, "changed"))
    assert _can_write(cluster, "admin", "changed", "SCRAM-SHA-256")
    assert not _can_write(cluster, "admin", "secret", "SCRAM-SHA-256")
    assert _can_write(cluster, "admin", "secret", "SCRAM-SHA-512")
    assert _can_write(cluster, "admin", "secret", "PLAIN")
    assert cluster.users is not None
    cluster.users["admin"] = "third"  # a new password replaces what clients have set
    assert _can_write(cluster, "admin", "third", "SCRAM-SHA-256")


def test_a_user_that_a_client_removes_cannot_log_in(cluster: Cluster, admin: AdminClient) -> None:
    _alter(admin, _upsertion("ann", ScramMechanism.SCRAM_SHA_256, "her-secret"))
    _alter(admin, UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256))
    assert not _can_write(cluster, "ann", "her-secret", "SCRAM-SHA-256")


def test_users_are_described_with_mechanisms_and_iterations(
    cluster: Cluster, admin: AdminClient
) -> None:
    _alter(admin, _upsertion("ann", ScramMechanism.SCRAM_SHA_256, "her-secret"))
    asked: Any = admin.describe_user_scram_credentials()
    described = asked.result(PATIENCE_S)
    shown = {
        user: {(one.mechanism, one.iterations) for one in user_info.scram_credential_infos}
        for user, user_info in described.items()
    }
    assert shown == {
        "admin": {(mechanism, 4096) for mechanism in _MECHANISMS},
        "ann": {(ScramMechanism.SCRAM_SHA_256, 4096)},
    }
