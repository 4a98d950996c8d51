"""Every setting of Kafka, from its own definitions: those of 4.3, and those that only 3.9 has.

    name | type | default, ~ for null | allowed values | flags

The flags: `hidden` is accepted and not described (only in 3.9, or internal to Kafka); `dynamic`
can be altered while brokers run; `used` has an effect here, the others are only checked and
described; `as NAME` is the broker's setting with the default of a topic's.
"""

# ruff: noqa: E501, W291

from __future__ import annotations

TOPIC = """
cleanup.policy | list | delete | compact, delete | as log.cleanup.policy used
compression.gzip.level | int | -1 | 1..9 or -1 | as compression.gzip.level
compression.lz4.level | int | 9 | 1..17 | as compression.lz4.level
compression.type | string | producer | uncompressed, zstd, lz4, snappy, gzip, producer | as compression.type used
compression.zstd.level | int | 3 | -131072..22 | as compression.zstd.level
delete.retention.ms | long | 86400000 | 0.. | as log.cleaner.delete.retention.ms used
file.delete.delay.ms | long | 60000 | 0.. | as log.segment.delete.delay.ms
flush.messages | long | 9223372036854775807 | 1.. | as log.flush.interval.messages
flush.ms | long | 9223372036854775807 | 0.. | as log.flush.interval.ms
follower.replication.throttled.replicas | list | 
index.interval.bytes | int | 4096 | 0.. | as log.index.interval.bytes
internal.segment.bytes | int | ~ |  | hidden
leader.replication.throttled.replicas | list | 
local.retention.bytes | long | -2 | -2.. | as log.local.retention.bytes
local.retention.ms | long | -2 | -2.. | as log.local.retention.ms
max.compaction.lag.ms | long | 9223372036854775807 | 1.. | as log.cleaner.max.compaction.lag.ms used
max.message.bytes | int | 1048588 | 0.. | as message.max.bytes used
message.downconversion.enable | boolean | true |  | as log.message.downconversion.enable hidden
message.format.version | string | 3.0-IV1 |  | as log.message.format.version hidden
message.timestamp.after.max.ms | long | 3600000 | 0.. | as log.message.timestamp.after.max.ms used
message.timestamp.before.max.ms | long | 9223372036854775807 | 0.. | as log.message.timestamp.before.max.ms used
message.timestamp.difference.max.ms | long | 9223372036854775807 | 0.. | as log.message.timestamp.difference.max.ms hidden
message.timestamp.type | string | CreateTime | CreateTime, LogAppendTime | as log.message.timestamp.type used
min.cleanable.dirty.ratio | double | 0.5 | 0..1 | as log.cleaner.min.cleanable.ratio used
min.compaction.lag.ms | long | 0 | 0.. | as log.cleaner.min.compaction.lag.ms used
min.insync.replicas | int | 1 | 1.. | as min.insync.replicas used
preallocate | boolean | false |  | as log.preallocate
remote.log.copy.disable | boolean | false
remote.log.delete.on.disable | boolean | false
remote.storage.enable | boolean | false
retention.bytes | long | -1 |  | as log.retention.bytes used
retention.ms | long | 604800000 | -1.. | as log.retention.ms used
segment.bytes | int | 1073741824 | 14.. | as log.segment.bytes used
segment.index.bytes | int | 10485760 | 4.. | as log.index.size.max.bytes
segment.jitter.ms | long | 0 | 0.. | as log.roll.jitter.ms
segment.ms | long | 604800000 | 1.. | as log.roll.ms used
unclean.leader.election.enable | boolean | false |  | as unclean.leader.election.enable used
"""

BROKER = """
add.partitions.to.txn.retry.backoff.max.ms | int | 100 | 0..
add.partitions.to.txn.retry.backoff.ms | int | 20 | 1..
advertised.listeners | list | ~ |  | used
alter.config.policy.class.name | class | ~
alter.config.policy.kraft.compatibility.enable | boolean | false |  | hidden
alter.log.dirs.replication.quota.window.num | int | 11 | 1..
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | 1..
authorizer.class.name | string | 
auto.create.topics.enable | boolean | true |  | used
auto.include.jmx.reporter | boolean | true |  | hidden
auto.leader.rebalance.enable | boolean | true
background.threads | int | 10 | 1.. | dynamic
broker.heartbeat.interval.ms | int | 2000
broker.id | int | -1
broker.id.generation.enable | boolean | true |  | hidden
broker.rack | string | ~
broker.session.timeout.ms | int | 9000
client.quota.callback.class | class | ~
compression.gzip.level | int | -1 | 1..9 or -1 | dynamic
compression.lz4.level | int | 9 | 1..17 | dynamic
compression.type | string | producer | uncompressed, zstd, lz4, snappy, gzip, producer | dynamic
compression.zstd.level | int | 3 | -131072..22 | dynamic
config.providers | list |  |  | dynamic
connection.failed.authentication.delay.ms | int | 100 | 0..
connections.max.idle.ms | long | 600000
connections.max.reauth.ms | long | 0 |  | used
control.plane.listener.name | string | ~ |  | hidden
controlled.shutdown.enable | boolean | true
controlled.shutdown.max.retries | int | 3 |  | hidden
controlled.shutdown.retry.backoff.ms | long | 5000 |  | hidden
controller.listener.names | list | ~
controller.performance.always.log.threshold.ms | long | 2000 | 0.. | hidden
controller.performance.sample.period.ms | long | 60000 | 100.. | hidden
controller.quorum.append.linger.ms | int | 25 | 0..
controller.quorum.auto.join.enable | boolean | false
controller.quorum.bootstrap.servers | list |  | not empty
controller.quorum.election.backoff.max.ms | int | 1000 | 0..
controller.quorum.election.timeout.ms | int | 1000 | 0..
controller.quorum.fetch.max.bytes | int | 1048576 | 1..
controller.quorum.fetch.snapshot.max.bytes | int | 1048576 | 1..
controller.quorum.fetch.timeout.ms | int | 2000 | 0..
controller.quorum.request.timeout.ms | int | 2000 | 0..
controller.quorum.retry.backoff.ms | int | 20 | 0..
controller.quorum.voters | list |  | not empty
controller.quota.window.num | int | 11 | 1.. | used
controller.quota.window.size.seconds | int | 1 | 1.. | used
controller.socket.timeout.ms | int | 30000
cordoned.log.dirs | list |  |  | dynamic
create.topic.policy.class.name | class | ~
default.replication.factor | int | 1 |  | used
delegation.token.expiry.check.interval.ms | long | 3600000 | 1..
delegation.token.expiry.time.ms | long | 86400000 | 1..
delegation.token.master.key | password | ~ |  | hidden
delegation.token.max.lifetime.ms | long | 604800000 | 1..
delegation.token.secret.key | password | ~
delete.records.purgatory.purge.interval.requests | int | 1
delete.topic.enable | boolean | true |  | used
early.start.listeners | list | ~
eligible.leader.replicas.enable | boolean | false |  | hidden
fetch.max.bytes | int | 57671680 | 1024..
fetch.purgatory.purge.interval.requests | int | 1000
follower.fetch.last.tiered.offset.enable | boolean | false |  | dynamic
group.consumer.assignment.interval.ms | int | 1000 | 0.. | dynamic used
group.consumer.assignors | list | uniform,range |  | used
group.consumer.heartbeat.interval.ms | int | 5000 | 1.. | used
group.consumer.max.assignment.interval.ms | int | 15000 | 0.. | used
group.consumer.max.heartbeat.interval.ms | int | 15000 | 1.. | used
group.consumer.max.session.timeout.ms | int | 60000 | 1.. | used
group.consumer.max.size | int | 2147483647 | 1.. | used
group.consumer.migration.policy | string | bidirectional | any case: DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL
group.consumer.min.assignment.interval.ms | int | 0 | 0.. | used
group.consumer.min.heartbeat.interval.ms | int | 5000 | 1.. | used
group.consumer.min.session.timeout.ms | int | 45000 | 1.. | used
group.consumer.regex.refresh.interval.ms | int | 600000 | 10000.. | hidden used
group.consumer.session.timeout.ms | int | 45000 | 1.. | used
group.coordinator.append.linger.ms | int | -1 | -1..
group.coordinator.background.threads | int | 2 | 1..
group.coordinator.cached.buffer.max.bytes | int | 1048588 | 524288.. | dynamic
group.coordinator.new.enable | boolean | false |  | hidden
group.coordinator.rebalance.protocols | list | classic,consumer,streams | consumer, classic, share, streams | used
group.coordinator.threads | int | 4 | 1..
group.initial.rebalance.delay.ms | int | 3000 |  | used
group.max.session.timeout.ms | int | 1800000 |  | used
group.max.size | int | 2147483647 | 1.. | used
group.min.session.timeout.ms | int | 6000 |  | used
group.share.assignment.interval.ms | int | 1000 | 0.. | dynamic
group.share.assignors | list | simple
group.share.delivery.count.limit | int | 5 | 2..10
group.share.enable | boolean | false |  | hidden
group.share.heartbeat.interval.ms | int | 5000 | 1..
group.share.initialize.retry.interval.ms | int | 30000 | 1.. | hidden
group.share.max.assignment.interval.ms | int | 15000 | 0..
group.share.max.delivery.count.limit | int | 10 | 5..25
group.share.max.groups | short | 10 | 1..100 | hidden
group.share.max.heartbeat.interval.ms | int | 15000 | 1..
group.share.max.partition.max.record.locks | int | 4000 | 2000..10000
group.share.max.record.lock.duration.ms | int | 60000 | 30000..3600000
group.share.max.session.timeout.ms | int | 60000 | 1..
group.share.max.share.sessions | int | 2000 | 1..
group.share.max.size | int | 200 | 1..1000
group.share.min.assignment.interval.ms | int | 0 | 0..
group.share.min.delivery.count.limit | int | 2 | 2..5
group.share.min.heartbeat.interval.ms | int | 5000 | 1..
group.share.min.partition.max.record.locks | int | 100 | 100..2000
group.share.min.record.lock.duration.ms | int | 15000 | 1000..30000
group.share.min.session.timeout.ms | int | 45000 | 1..
group.share.partition.max.record.locks | int | 2000 | 100..10000
group.share.persister.class.name | string | org.apache.kafka.server.share.persister.DefaultStatePersister |  | hidden
group.share.record.lock.duration.ms | int | 30000 | 1000..3600000
group.share.session.timeout.ms | int | 45000 | 1..
group.streams.assignment.interval.ms | int | 1000 | 0.. | dynamic
group.streams.heartbeat.interval.ms | int | 5000 | 1..
group.streams.initial.rebalance.delay.ms | int | 3000 | 0..
group.streams.max.assignment.interval.ms | int | 15000 | 0..
group.streams.max.heartbeat.interval.ms | int | 15000 | 1..
group.streams.max.session.timeout.ms | int | 60000 | 1..
group.streams.max.size | int | 2147483647 | 1..
group.streams.max.standby.replicas | int | 2 | 0..
group.streams.min.assignment.interval.ms | int | 0 | 0..
group.streams.min.heartbeat.interval.ms | int | 5000 | 1..
group.streams.min.session.timeout.ms | int | 45000 | 1..
group.streams.num.standby.replicas | int | 0 | 0..
group.streams.session.timeout.ms | int | 45000 | 1..
initial.broker.registration.timeout.ms | int | 60000
inter.broker.listener.name | string | ~
inter.broker.protocol.version | string | 3.9-IV0 |  | hidden
internal.metadata.delete.delay.millis | long | 60000 |  | hidden
internal.metadata.log.segment.bytes | int | ~ |  | hidden
internal.metadata.max.batch.size.in.bytes | int | 8388608 |  | hidden
kafka.metrics.polling.interval.secs | int | 10 | 1..
kafka.metrics.reporters | list | 
leader.imbalance.check.interval.seconds | long | 300 | 1..
leader.imbalance.per.broker.percentage | int | 10 |  | hidden
listener.security.protocol.map | string | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT |  | dynamic
listeners | list | PLAINTEXT://:9092 |  | dynamic
log.cleaner.backoff.ms | long | 15000 | 0.. | dynamic used
log.cleaner.dedupe.buffer.size | long | 134217728 |  | dynamic
log.cleaner.delete.retention.ms | long | 86400000 | 0.. | dynamic
log.cleaner.enable | boolean | true |  | used
log.cleaner.io.buffer.load.factor | double | 0.9 |  | dynamic
log.cleaner.io.buffer.size | int | 524288 | 0.. | dynamic
log.cleaner.io.max.bytes.per.second | double | 1.7976931348623157E308 |  | dynamic
log.cleaner.max.compaction.lag.ms | long | 9223372036854775807 | 1.. | dynamic
log.cleaner.min.cleanable.ratio | double | 0.5 | 0..1 | dynamic
log.cleaner.min.compaction.lag.ms | long | 0 | 0.. | dynamic
log.cleaner.threads | int | 1 | 0.. | dynamic
log.cleanup.policy | list | delete | compact, delete | dynamic
log.dir | list | /tmp/kafka-logs
log.dir.failure.timeout.ms | long | 30000 | 1..
log.dirs | list | ~
log.flush.interval.messages | long | 9223372036854775807 | 1.. | dynamic
log.flush.interval.ms | long | ~ |  | dynamic
log.flush.offset.checkpoint.interval.ms | int | 60000 | 0..
log.flush.scheduler.interval.ms | long | 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms | int | 60000 | 0..
log.index.interval.bytes | int | 4096 | 0.. | dynamic
log.index.size.max.bytes | int | 10485760 | 4.. | dynamic
log.initial.task.delay.ms | long | 30000 | 0.. | hidden
log.local.retention.bytes | long | -2 | -2.. | dynamic
log.local.retention.ms | long | -2 | -2.. | dynamic
log.message.downconversion.enable | boolean | true |  | hidden dynamic
log.message.format.version | string | 3.0-IV1 |  | hidden
log.message.timestamp.after.max.ms | long | 3600000 | 0.. | dynamic
log.message.timestamp.before.max.ms | long | 9223372036854775807 | 0.. | dynamic
log.message.timestamp.difference.max.ms | long | 9223372036854775807 | 0.. | hidden dynamic
log.message.timestamp.type | string | CreateTime | CreateTime, LogAppendTime | dynamic
log.preallocate | boolean | false |  | dynamic
log.retention.bytes | long | -1 |  | dynamic
log.retention.check.interval.ms | long | 300000 | 1.. | used
log.retention.hours | int | 168
log.retention.minutes | int | ~
log.retention.ms | long | ~ |  | dynamic
log.roll.hours | int | 168 | 1..
log.roll.jitter.hours | int | 0 | 0..
log.roll.jitter.ms | long | ~ |  | dynamic
log.roll.ms | long | ~ |  | dynamic
log.segment.bytes | int | 1073741824 | 14.. | dynamic
log.segment.delete.delay.ms | long | 60000 | 0.. | dynamic
max.connection.creation.rate | int | 2147483647 | 0.. | dynamic
max.connections | int | 2147483647 | 0.. | dynamic
max.connections.per.ip | int | 2147483647 | 0.. | dynamic
max.connections.per.ip.overrides | string |  |  | dynamic
max.incremental.fetch.session.cache.slots | int | 1000 | 0.. | used
max.request.partition.size.limit | int | 2000 | 1..
message.max.bytes | int | 1048588 | 0.. | dynamic
metadata.log.dir | string | ~
metadata.log.max.record.bytes.between.snapshots | long | 20971520 | 1..
metadata.log.max.snapshot.interval.ms | long | 3600000 | 0..
metadata.log.segment.bytes | int | 1073741824 | 8388608..
metadata.log.segment.min.bytes | int | 8388608 | 12.. | hidden
metadata.log.segment.ms | long | 604800000
metadata.max.idle.interval.ms | int | 500 | 0..
metadata.max.retention.bytes | long | 104857600
metadata.max.retention.ms | long | 604800000
metric.reporters | list | org.apache.kafka.common.metrics.JmxReporter |  | dynamic
metrics.num.samples | int | 2 | 1..
metrics.recording.level | string | INFO
metrics.sample.window.ms | long | 30000 | 1..
min.insync.replicas | int | 1 | 1.. | dynamic
node.id | int | ~ | 0..
num.io.threads | int | 8 | 1.. | dynamic
num.network.threads | int | 3 | 1.. | dynamic
num.partitions | int | 1 | 1.. | used
num.recovery.threads.per.data.dir | int | 2 | 1.. | dynamic
num.replica.alter.log.dirs.threads | int | ~
num.replica.fetchers | int | 1 | 1.. | dynamic
offset.metadata.max.bytes | int | 4096 |  | used
offsets.commit.required.acks | short | -1 |  | hidden
offsets.commit.timeout.ms | int | 5000 | 1..
offsets.load.buffer.size | int | 5242880 | 1..
offsets.retention.check.interval.ms | long | 600000 | 1.. | used
offsets.retention.minutes | int | 10080 | 1.. | used
offsets.topic.compression.codec | int | 0
offsets.topic.num.partitions | int | 50 | 1.. | used
offsets.topic.replication.factor | short | 3 | 1.. | used
offsets.topic.segment.bytes | int | 104857600 | 1.. | used
password.encoder.cipher.algorithm | string | AES/CBC/PKCS5Padding |  | hidden
password.encoder.iterations | int | 4096 | 1024.. | hidden
password.encoder.key.length | int | 128 | 8.. | hidden
password.encoder.keyfactory.algorithm | string | ~ |  | hidden
password.encoder.old.secret | password | ~ |  | hidden
password.encoder.secret | password | ~ |  | hidden
principal.builder.class | class | org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder |  | dynamic
process.roles | list | ~ | broker, controller
producer.id.expiration.check.interval.ms | int | 600000 | 1.. | hidden used
producer.id.expiration.ms | int | 86400000 | 1.. | dynamic used
producer.purgatory.purge.interval.requests | int | 1000
queued.max.request.bytes | long | -1
queued.max.requests | int | 500 | 1..
quota.window.num | int | 11 | 1..
quota.window.size.seconds | int | 1 | 1..
remote.fetch.max.wait.ms | int | 500 | 1.. | dynamic
remote.list.offsets.request.timeout.ms | long | 30000 | 1.. | dynamic
remote.log.index.file.cache.total.size.bytes | long | 1073741824 | 1.. | dynamic
remote.log.index.file.cache.ttl.ms | long | 900000 | -1.. | hidden
remote.log.manager.copier.thread.pool.size | int | 10 | 1.. | dynamic
remote.log.manager.copy.max.bytes.per.second | long | 9223372036854775807 | 1.. | dynamic
remote.log.manager.copy.quota.window.num | int | 11 | 1..
remote.log.manager.copy.quota.window.size.seconds | int | 1 | 1..
remote.log.manager.expiration.thread.pool.size | int | 10 | 1.. | dynamic
remote.log.manager.fetch.max.bytes.per.second | long | 9223372036854775807 | 1.. | dynamic
remote.log.manager.fetch.quota.window.num | int | 11 | 1..
remote.log.manager.fetch.quota.window.size.seconds | int | 1 | 1..
remote.log.manager.follower.thread.pool.size | int | 2 | 1.. | dynamic
remote.log.manager.task.interval.ms | long | 30000 | 1..
remote.log.manager.task.retry.backoff.max.ms | long | 30000 | 1.. | hidden
remote.log.manager.task.retry.backoff.ms | long | 500 | 1.. | hidden
remote.log.manager.task.retry.jitter | double | 0.2 | 0..0.5 | hidden
remote.log.manager.thread.pool.size | int | 2 | 1..
remote.log.metadata.custom.metadata.max.bytes | int | 128 | 0..
remote.log.metadata.manager.class.name | string | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | not empty
remote.log.metadata.manager.class.path | string | ~
remote.log.metadata.manager.impl.prefix | string | rlmm.config. | not empty
remote.log.metadata.manager.listener.name | string | ~ | not empty
remote.log.reader.max.pending.tasks | int | 100 | 1..
remote.log.reader.threads | int | 10 | 1.. | dynamic
remote.log.storage.manager.class.name | string | ~ | not empty
remote.log.storage.manager.class.path | string | ~
remote.log.storage.manager.impl.prefix | string | rsm.config. | not empty
remote.log.storage.system.enable | boolean | false
replica.fetch.backoff.ms | int | 1000 | 0..
replica.fetch.max.bytes | int | 1048576 | 0.. | used
replica.fetch.min.bytes | int | 1
replica.fetch.response.max.bytes | int | 10485760 | 0..
replica.fetch.wait.max.ms | int | 500
replica.high.watermark.checkpoint.interval.ms | long | 5000
replica.lag.time.max.ms | long | 30000 |  | used
replica.selector.class | string | ~
replica.socket.receive.buffer.bytes | int | 65536
replica.socket.timeout.ms | int | 30000
replication.quota.window.num | int | 11 | 1..
replication.quota.window.size.seconds | int | 1 | 1..
request.timeout.ms | int | 30000 |  | used
reserved.broker.max.id | int | 1000 | 0.. | hidden
sasl.client.callback.handler.class | class | ~
sasl.enabled.mechanisms | list | GSSAPI |  | dynamic used
sasl.jaas.config | password | ~ |  | dynamic
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit |  | dynamic
sasl.kerberos.min.time.before.relogin | long | 60000 |  | dynamic
sasl.kerberos.principal.to.local.rules | list | DEFAULT |  | dynamic
sasl.kerberos.service.name | string | ~ |  | dynamic
sasl.kerberos.ticket.renew.jitter | double | 0.05 |  | dynamic
sasl.kerberos.ticket.renew.window.factor | double | 0.8 |  | dynamic
sasl.login.callback.handler.class | class | ~
sasl.login.class | class | ~
sasl.login.connect.timeout.ms | int | ~
sasl.login.read.timeout.ms | int | ~
sasl.login.refresh.buffer.seconds | short | 300 |  | dynamic
sasl.login.refresh.min.period.seconds | short | 60 |  | dynamic
sasl.login.refresh.window.factor | double | 0.8 |  | dynamic
sasl.login.refresh.window.jitter | double | 0.05 |  | dynamic
sasl.login.retry.backoff.max.ms | long | 10000
sasl.login.retry.backoff.ms | long | 100
sasl.mechanism.controller.protocol | string | GSSAPI
sasl.mechanism.inter.broker.protocol | string | GSSAPI |  | dynamic
sasl.oauthbearer.assertion.algorithm | string | RS256 | any case: ES256, RS256
sasl.oauthbearer.assertion.claim.aud | string | ~
sasl.oauthbearer.assertion.claim.exp.seconds | int | 300 | 0..86400
sasl.oauthbearer.assertion.claim.iss | string | ~
sasl.oauthbearer.assertion.claim.jti.include | boolean | false
sasl.oauthbearer.assertion.claim.nbf.seconds | int | 60 | 0..3600
sasl.oauthbearer.assertion.claim.sub | string | ~
sasl.oauthbearer.assertion.file | string | ~
sasl.oauthbearer.assertion.private.key.file | string | ~
sasl.oauthbearer.assertion.private.key.passphrase | password | ~
sasl.oauthbearer.assertion.template.file | string | ~
sasl.oauthbearer.client.credentials.client.id | string | ~
sasl.oauthbearer.client.credentials.client.secret | password | ~
sasl.oauthbearer.clock.skew.seconds | int | 30
sasl.oauthbearer.expected.audience | list | 
sasl.oauthbearer.expected.issuer | string | ~
sasl.oauthbearer.jwks.endpoint.refresh.ms | long | 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100
sasl.oauthbearer.jwks.endpoint.url | string | ~
sasl.oauthbearer.jwt.retriever.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope | string | ~
sasl.oauthbearer.scope.claim.name | string | scope
sasl.oauthbearer.sub.claim.name | string | sub
sasl.oauthbearer.token.endpoint.url | string | ~
sasl.server.callback.handler.class | class | ~
sasl.server.max.receive.size | int | 524288
security.inter.broker.protocol | string | PLAINTEXT | PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
security.providers | string | ~
server.max.startup.time.ms | long | 9223372036854775807 | 0.. | hidden
share.coordinator.append.linger.ms | int | -1 | -1..
share.coordinator.cached.buffer.max.bytes | int | 1048588 | 524288.. | dynamic
share.coordinator.cold.partition.snapshot.interval.ms | int | 300000 | 1.. | hidden
share.coordinator.load.buffer.size | int | 5242880 | 1..
share.coordinator.snapshot.update.records.per.snapshot | int | 500 | 0..500
share.coordinator.state.topic.compression.codec | int | 0
share.coordinator.state.topic.min.isr | short | 2 | 1..
share.coordinator.state.topic.num.partitions | int | 50 | 1..
share.coordinator.state.topic.prune.interval.ms | int | 300000 | 1.. | hidden
share.coordinator.state.topic.replication.factor | short | 3 | 1..
share.coordinator.state.topic.segment.bytes | int | 104857600 | 1..
share.coordinator.threads | int | 1 | 1..
share.coordinator.write.timeout.ms | int | 5000 | 1..
share.fetch.purgatory.purge.interval.requests | int | 1000
socket.connection.setup.timeout.max.ms | long | 30000
socket.connection.setup.timeout.ms | long | 10000
socket.listen.backlog.size | int | 50 | 1..
socket.receive.buffer.bytes | int | 102400
socket.request.max.bytes | int | 104857600 | 1.. | used
socket.send.buffer.bytes | int | 102400
ssl.allow.dn.changes | boolean | false
ssl.allow.san.changes | boolean | false
ssl.cipher.suites | list |  |  | dynamic
ssl.client.auth | string | none | required, requested, none | dynamic
ssl.enabled.protocols | list | TLSv1.2,TLSv1.3 |  | dynamic
ssl.endpoint.identification.algorithm | string | https |  | dynamic
ssl.engine.factory.class | class | ~ |  | dynamic
ssl.key.password | password | ~ |  | dynamic
ssl.keymanager.algorithm | string | SunX509 |  | dynamic
ssl.keystore.certificate.chain | password | ~ |  | dynamic
ssl.keystore.key | password | ~ |  | dynamic
ssl.keystore.location | string | ~ |  | dynamic
ssl.keystore.password | password | ~ |  | dynamic
ssl.keystore.type | string | JKS |  | dynamic
ssl.principal.mapping.rules | string | DEFAULT
ssl.protocol | string | TLSv1.3 |  | dynamic
ssl.provider | string | ~ |  | dynamic
ssl.secure.random.implementation | string | ~ |  | dynamic
ssl.trustmanager.algorithm | string | PKIX |  | dynamic
ssl.truststore.certificates | password | ~ |  | dynamic
ssl.truststore.location | string | ~ |  | dynamic
ssl.truststore.password | password | ~ |  | dynamic
ssl.truststore.type | string | JKS |  | dynamic
telemetry.max.bytes | int | 1048576 | 1..
transaction.abort.timed.out.transaction.cleanup.interval.ms | int | 10000 | 1..
transaction.max.timeout.ms | int | 900000 | 1.. | used
transaction.partition.verification.enable | boolean | true |  | dynamic used
transaction.remove.expired.transaction.cleanup.interval.ms | int | 3600000 | 1.. | used
transaction.state.log.load.buffer.size | int | 5242880 | 1..
transaction.state.log.min.isr | int | 2 | 1.. | used
transaction.state.log.num.partitions | int | 50 | 1.. | used
transaction.state.log.replication.factor | short | 3 | 1.. | used
transaction.state.log.segment.bytes | int | 104857600 | 1.. | used
transaction.two.phase.commit.enable | boolean | false
transactional.id.expiration.ms | int | 604800000 | 1.. | used
unclean.leader.election.enable | boolean | false |  | dynamic
unclean.leader.election.interval.ms | long | 300000 | 1.. | hidden
unstable.api.versions.enable | boolean | false |  | hidden
unstable.feature.versions.enable | boolean | false |  | hidden
zookeeper.clientCnxnSocket | string | ~ |  | hidden
zookeeper.connect | string | ~ |  | hidden
zookeeper.connection.timeout.ms | int | ~ |  | hidden
zookeeper.max.in.flight.requests | int | 10 | 1.. | hidden
zookeeper.metadata.migration.enable | boolean | false |  | hidden
zookeeper.metadata.migration.min.batch.size | int | 200 | 1.. | hidden
zookeeper.session.timeout.ms | int | 18000 |  | hidden
zookeeper.set.acl | boolean | false |  | hidden
zookeeper.ssl.cipher.suites | list | ~ |  | hidden
zookeeper.ssl.client.enable | boolean | false |  | hidden
zookeeper.ssl.crl.enable | boolean | false |  | hidden
zookeeper.ssl.enabled.protocols | list | ~ |  | hidden
zookeeper.ssl.endpoint.identification.algorithm | string | HTTPS |  | hidden
zookeeper.ssl.keystore.location | string | ~ |  | hidden
zookeeper.ssl.keystore.password | password | ~ |  | hidden
zookeeper.ssl.keystore.type | string | ~ |  | hidden
zookeeper.ssl.ocsp.enable | boolean | false |  | hidden
zookeeper.ssl.protocol | string | TLSv1.2 |  | hidden
zookeeper.ssl.truststore.location | string | ~ |  | hidden
zookeeper.ssl.truststore.password | password | ~ |  | hidden
zookeeper.ssl.truststore.type | string | ~ |  | hidden
"""
