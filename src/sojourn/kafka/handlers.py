"""Every handler of a broker, by the name of its API. Those of groups belong to a coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sojourn.kafka.apis import (
    configs,
    create_topics,
    delete_records,
    delete_topics,
    elections,
    features,
    find_coordinator,
    list_offsets,
    log_dirs,
    metadata,
    produce,
    reassignments,
    write_markers,
)
from sojourn.kafka.fetch import apis as fetch
from sojourn.kafka.security import authentication, scram_apis
from sojourn.kafka.transactions import apis as transactions
from sojourn.kafka.transactions import describe

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Handler

_HANDLERS: Mapping[str, Handler] = {
    "add_offsets_to_txn": transactions.add_offsets_to_txn,
    "add_partitions_to_txn": transactions.add_partitions_to_txn,
    "alter_configs": configs.alter_configs,
    "alter_partition_reassignments": reassignments.alter_partition_reassignments,
    "alter_replica_log_dirs": log_dirs.alter_replica_log_dirs,
    "alter_user_scram_credentials": scram_apis.alter,
    "api_versions": metadata.api_versions,
    "create_partitions": create_topics.create_partitions,
    "create_topics": create_topics.create_topics,
    "delete_records": delete_records.delete_records,
    "delete_topics": delete_topics.delete_topics,
    "describe_cluster": metadata.describe_cluster,
    "describe_configs": configs.describe_configs,
    "describe_log_dirs": log_dirs.describe_log_dirs,
    "describe_producers": describe.describe_producers,
    "describe_quorum": features.describe_quorum,
    "describe_topic_partitions": metadata.describe_topic_partitions,
    "describe_transactions": describe.describe_transactions,
    "describe_user_scram_credentials": scram_apis.describe,
    "elect_leaders": elections.elect_leaders,
    "end_txn": transactions.end_txn,
    "fetch": fetch.fetch,
    "find_coordinator": find_coordinator.find_coordinator,
    "incremental_alter_configs": configs.incremental_alter_configs,
    "init_producer_id": transactions.init_producer_id,
    "list_offsets": list_offsets.list_offsets,
    "list_partition_reassignments": reassignments.list_partition_reassignments,
    "list_transactions": describe.list_transactions,
    "metadata": metadata.metadata,
    "offset_for_leader_epoch": list_offsets.offset_for_leader_epoch,
    "produce": produce.produce,
    "sasl_authenticate": authentication.authenticate,
    "sasl_handshake": authentication.handshake,
    "update_features": features.update_features,
    "write_txn_markers": write_markers.write_txn_markers,
}


def handlers(broker: Broker) -> dict[str, Handler]:
    """The handlers of this broker."""
    return {**_HANDLERS, **broker.cluster.groups.handlers(broker)}
