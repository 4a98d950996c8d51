"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.configs import (
    BROKER,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    LIST,
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    InvalidConfig,
    Settings,
)
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {
        "describe_configs": describe_configs,
        "alter_configs": alter_configs,
        "incremental_alter_configs": incremental_alter_configs,
    }


def entries(settings: Settings, names: Iterable[str] | None) -> list[dict[str, Any]]:
    """Each setting in force, with where it comes from; of all, or those of these names."""
    wanted = settings.definitions if names is None else names
    return [_entry(settings, name) for name in sorted(wanted) if name in settings.definitions]


def _entry(settings: Settings, name: str) -> dict[str, Any]:
    definition = settings.definitions[name]
    synonyms = []
    layer: Settings | None = settings
    at = name
    while layer is not None:
        if at in layer.own:
            synonyms.append({"name": at, "value": layer.own[at], "source": _source(layer, at)})
        at = layer.definitions[at].broker_name or at
        layer = layer.beneath
        if layer is not None and at not in layer.definitions:
            break
    synonyms.append({"name": at, "value": definition.default, "source": DEFAULT_CONFIG})
    return {
        "name": name,
        "value": settings.text(name),
        "read_only": definition.read_only,
        "config_source": synonyms[0]["source"],
        "is_sensitive": False,
        "config_type": definition.type,
        "synonyms": synonyms,
    }


def _source(layer: Settings, name: str) -> int:
    if layer.definitions is not BROKER:
        return TOPIC_CONFIG
    if layer.definitions[name].read_only:
        return STATIC_BROKER_CONFIG
    if layer.beneath is not None:
        return DYNAMIC_BROKER_CONFIG
    return DYNAMIC_DEFAULT_BROKER_CONFIG if layer.is_altered else STATIC_BROKER_CONFIG


def _settings_of(context: Context, kind: int, name: str) -> Settings:
    """The settings of this resource; or Refused."""
    cluster = context.broker.cluster
    if kind == TOPIC_RESOURCE:
        topic = cluster.controller.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"no topic {name}")
        return topic.settings
    if kind == BROKER_RESOURCE:
        if not name:
            return cluster.settings
        if not name.isdecimal() or int(name) not in cluster.controller.all_brokers():
            raise Refused(ErrorCode.invalid_request, f"no broker {name}")
        return cluster.broker(int(name)).settings
    raise Refused(ErrorCode.invalid_request, f"resources of type {kind} have no settings here")


def describe_configs(request: Any, reply: Reply, context: Context) -> None:
    """List the settings of each resource."""
    results = []
    for resource in request.resources:
        fields: dict[str, Any] = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            settings = _settings_of(context, resource.resource_type, resource.resource_name)
            found = entries(settings, resource.configuration_keys)
            if not request.include_synonyms:
                for entry in found:
                    entry["synonyms"] = []
            fields["configs"] = found
        except Refused as refused:
            fields |= {"error_code": refused.code, "error_message": refused.reason}
        results.append(fields)
    reply({"results": results})


def alter_configs(request: Any, reply: Reply, context: Context) -> None:
    """Give each resource these settings and no others."""

    def wanted(settings: Settings, resource: Any) -> dict[str, str]:
        own = {}
        for entry in resource.configs:
            if entry.value is None:
                raise Refused(ErrorCode.invalid_request, f"Null value not supported: {entry.name}")
            own[entry.name] = entry.value
        return own

    _alter(request, reply, context, wanted)


def incremental_alter_configs(request: Any, reply: Reply, context: Context) -> None:
    """Set, unset, add to or take from settings of each resource."""

    def wanted(settings: Settings, resource: Any) -> dict[str, str]:
        own = dict(settings.own)
        names = [entry.name for entry in resource.configs]
        if len(set(names)) != len(names):
            raise Refused(ErrorCode.invalid_request, "a setting is named twice")
        for entry in resource.configs:
            _change(own, settings, entry)
        return own

    _alter(request, reply, context, wanted)


def _change(own: dict[str, str], settings: Settings, entry: Any) -> None:
    name, operation = entry.name, entry.config_operation
    if name not in settings.definitions:
        raise Refused(ErrorCode.invalid_config, f"Unknown config name: {name}")
    if operation == _DELETE:
        own.pop(name, None)
        return
    if entry.value is None:
        raise Refused(ErrorCode.invalid_request, f"Null value not supported: {name}")
    if operation == _SET:
        own[name] = entry.value
        return
    if operation not in (_APPEND, _SUBTRACT) or settings.definitions[name].type != LIST:
        raise Refused(ErrorCode.invalid_config, f"operation {operation} is not for {name}")
    now = [part for part in own.get(name, settings.text(name)).split(",") if part]
    given = [part.strip() for part in entry.value.split(",")]
    if operation == _APPEND:
        now += [part for part in given if part not in now]
    else:
        now = [part for part in now if part not in given]
    own[name] = ",".join(now)


def _alter(request: Any, reply: Reply, context: Context, wanted: Any) -> None:
    responses = []
    for resource in request.resources:
        fields: dict[str, Any] = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            settings = _settings_of(context, resource.resource_type, resource.resource_name)
            fixed = {
                name: value
                for name, value in settings.own.items()
                if settings.definitions[name].read_only
            }
            own = fixed | {
                name: settings.checked(name, value)
                for name, value in wanted(settings, resource).items()
            }
            for name, value in own.items():
                if settings.definitions[name].read_only and value != fixed.get(name):
                    raise Refused(
                        ErrorCode.invalid_request, f"{name} cannot be changed while brokers run"
                    )
            if not request.validate_only:
                settings.own = own
                settings.is_altered = True
                for partition in context.broker.cluster.controller.partitions():
                    partition.reconfigured()
        except Refused as refused:
            fields |= {"error_code": refused.code, "error_message": refused.reason}
        except InvalidConfig as error:
            fields |= {"error_code": ErrorCode.invalid_config, "error_message": str(error)}
        responses.append(fields)
    reply({"responses": responses})
