"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.configs import (
    BROKER,
    COARSER,
    DEFAULT_CONFIG,
    LIST,
    TOPIC,
    TOPIC_CONFIG,
    InvalidConfig,
    Layer,
    Settings,
    check_together,
)
from sojourn.kafka.refusal import Refused
from sojourn.kafka.topic import name_error
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
METRICS_RESOURCE = 16

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {
        "describe_configs": describe_configs,
        "alter_configs": alter_configs,
        "incremental_alter_configs": incremental_alter_configs,
    }


def entries(settings: Settings, names: Iterable[str] | None) -> list[dict[str, Any]]:
    """Each setting in force, with where it comes from; of all, or those of these names."""
    known = settings.definitions
    wanted = known if not names else set(names)
    return [
        _entry(settings, name)
        for name in sorted(wanted)
        if name in known and not known[name].is_hidden
    ]


def _entry(settings: Settings, name: str) -> dict[str, Any]:
    definition = settings.definitions[name]
    synonyms = _synonyms(settings, name)
    if settings.beneath is not None and definition.broker_name:
        synonyms += _synonyms(settings.beneath, definition.broker_name)
    value = settings.found(name)
    return {
        "name": name,
        "value": None if definition.is_sensitive else value,
        "read_only": definition.read_only,
        "config_source": synonyms[0]["source"] if synonyms else DEFAULT_CONFIG,
        "is_sensitive": definition.is_sensitive,
        "config_type": definition.type,
        "synonyms": synonyms,
    }


def _synonyms(settings: Settings, name: str) -> list[dict[str, Any]]:
    """What it was set to in each layer, and its default; a topic's is its broker's."""
    definition = settings.definitions[name]
    found = [
        {"name": name, "value": layer.values[name], "source": layer.source}
        for layer in settings.layers
        if name in layer.values
    ]
    if settings.beneath is None and definition.default is not None:
        found.append({"name": name, "value": definition.default, "source": DEFAULT_CONFIG})
    elif found:
        for coarser, _ in COARSER.get(name, ()):
            default = settings.definitions[coarser].default
            if default is not None:
                found.append({"name": coarser, "value": default, "source": DEFAULT_CONFIG})
    return found


def _settings_of(context: Context, kind: int, name: str) -> Settings:
    """The settings of this resource; or Refused."""
    cluster = context.broker.cluster
    if kind == TOPIC_RESOURCE:
        fault = name_error(name)
        if fault:
            raise Refused(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {fault}")
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


def _described(context: Context, resource: Any) -> list[dict[str, Any]]:
    """What is told of a resource; or Refused."""
    kind, name, keys = (
        resource.resource_type,
        resource.resource_name,
        resource.configuration_keys,
    )
    if kind == METRICS_RESOURCE:
        return []
    settings = _settings_of(context, kind, name)
    if kind == TOPIC_RESOURCE:
        return entries(settings.over(context.broker.settings), keys)
    if not name:  # what was altered for all brokers, and nothing else
        altered = settings.own.keys() & keys if keys else settings.own.keys()
        return [
            entry | {"synonyms": entry["synonyms"][:1]}
            for entry in (entries(settings, altered) if altered else [])
        ]
    if name != str(context.broker.id):
        raise Refused(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.broker.id}, but received {name}",
        )
    return entries(settings, keys)


def describe_configs(request: Any, reply: Reply, context: Context) -> None:
    """List the settings of each resource."""
    results = []
    for resource in request.resources:
        fields: dict[str, Any] = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            found = _described(context, resource)
            if not request.include_synonyms:
                for entry in found:
                    entry["synonyms"] = []
            fields |= {"configs": found, "error_message": ""}
        except Refused as refused:
            unknown = refused.code is ErrorCode.unknown_topic_or_partition
            reason = "" if unknown else refused.reason
            fields |= {"error_code": refused.code, "error_message": reason}
        results.append(fields)
    reply({"results": results})


def alter_configs(request: Any, reply: Reply, context: Context) -> None:
    """Give each resource these settings and no others."""

    def wanted(settings: Settings, resource: Any) -> dict[str, str]:
        _check_once(resource)
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
        _check_once(resource)
        for entry in resource.configs:
            _change(own, settings, entry)
        return own

    _alter(request, reply, context, wanted)


def _check_once(resource: Any) -> None:
    names = [entry.name for entry in resource.configs]
    if len(set(names)) != len(names):
        raise Refused(ErrorCode.invalid_request, "a setting is named twice")


def _change(own: dict[str, str], settings: Settings, entry: Any) -> None:
    name, operation = entry.name, entry.config_operation
    if operation not in (_SET, _DELETE, _APPEND, _SUBTRACT):
        raise Refused(ErrorCode.unknown_server_error)
    if operation == _DELETE:
        own.pop(name, None)
        return
    if entry.value is None:
        raise Refused(ErrorCode.invalid_request, f"Null value not supported: {name}")
    if operation == _SET:
        own[name] = entry.value
        return
    if name not in settings.definitions or settings.definitions[name].type != LIST:
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
            own = _checked(settings, wanted(settings, resource))
            if not request.validate_only:
                settings.replace(own)
                for partition in context.broker.cluster.controller.partitions():
                    partition.on_settings_changed()
        except Refused as refused:
            fields |= {"error_code": refused.code, "error_message": refused.reason or None}
        except InvalidConfig as error:
            fields |= {"error_code": ErrorCode.invalid_config, "error_message": str(error)}
        responses.append(fields)
    reply({"responses": responses})


def _checked(settings: Settings, own: Mapping[str, str]) -> dict[str, str]:
    """The values, if a client may set them; or Refused, or InvalidConfig."""
    if settings.definitions is TOPIC:
        found = {name: settings.checked(name, value) for name, value in own.items()}
        check_together(Settings(TOPIC, [Layer(TOPIC_CONFIG, found)], settings.beneath))
        return found
    found = {}
    for name, value in own.items():
        # Kafka's brokers take a name that they do not know: it may be a plug-in's.
        if name not in BROKER:
            continue
        if BROKER[name].read_only and value != settings.own.get(name):
            raise Refused(ErrorCode.invalid_request, f"{name} cannot be changed while brokers run")
        try:
            found[name] = settings.checked(name, value)
        except InvalidConfig as error:
            raise Refused(ErrorCode.invalid_request, str(error)) from None
    return found
