"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.refusal import Refused
from sojourn.kafka.settings.definitions import (
    BROKER,
    COARSER,
    EFFECTIVE,
    LIST,
    TOPIC,
    InvalidConfig,
)
from sojourn.kafka.settings.layers import (
    DEFAULT_CONFIG,
    TOPIC_CONFIG,
    Layer,
    Settings,
    check_together,
)
from sojourn.kafka.topic import name_error
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
METRICS_RESOURCE = 16

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def config_entries(settings: Settings, names: Iterable[str] | None) -> list[dict[str, Any]]:
    """Each setting's present value and its source; all settings, or those of these names."""
    definitions = settings.definitions
    return [
        _entry(settings, name)
        for name in sorted(set(names) if names else definitions)
        if name in definitions and not definitions[name].is_hidden
    ]


def _entry(settings: Settings, name: str) -> dict[str, Any]:
    definition = settings.definitions[name]
    synonyms = _synonyms(settings, name)
    if settings.beneath is not None and definition.broker_name:
        synonyms += _synonyms(settings.beneath, definition.broker_name)
    value = settings.value(name)
    return {
        "name": name,
        "value": None if definition.is_sensitive else value,
        "read_only": definition.read_only,
        "config_source": synonyms[0]["source"] if synonyms else DEFAULT_CONFIG,
        "is_sensitive": definition.is_sensitive,
        "config_type": definition.type,
        "synonyms": synonyms,
    }


def _documentation(name: str) -> str:
    """Whether a setting has an effect here, which Kafka's own text cannot say."""
    if name in EFFECTIVE:
        return "Has the effect that Kafka's documentation describes."
    return "Checked and described; has no effect on this cluster."


def _synonyms(settings: Settings, name: str) -> list[dict[str, Any]]:
    """The values in each layer, then the default; a topic's default is its broker's value."""
    definition = settings.definitions[name]
    synonyms = [
        {"name": name, "value": layer.values[name], "source": layer.source}
        for layer in settings.layers
        if name in layer.values
    ]
    if settings.beneath is None and definition.default is not None:
        synonyms.append({"name": name, "value": definition.default, "source": DEFAULT_CONFIG})
    elif synonyms:
        for coarser, _ in COARSER.get(name, ()):
            default = settings.definitions[coarser].default
            if default is not None:
                synonyms.append({"name": coarser, "value": default, "source": DEFAULT_CONFIG})
    return synonyms


def _settings_of(context: Context, kind: int, name: str) -> Settings:
    """The settings of this resource; or Refused."""
    cluster = context.broker.cluster
    if kind == TOPIC_RESOURCE:
        error = name_error(name)
        if error:
            raise Refused(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {error}")
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
    """The settings of a resource, as they are described; or Refused."""
    kind, name, keys = (
        resource.resource_type,
        resource.resource_name,
        resource.configuration_keys,
    )
    if kind == METRICS_RESOURCE:
        return []
    settings = _settings_of(context, kind, name)
    if kind == TOPIC_RESOURCE:
        return config_entries(settings.over(context.broker.settings), keys)
    if not name:  # only what was altered for all brokers
        altered = settings.own.keys() & keys if keys else settings.own.keys()
        return [
            entry | {"synonyms": entry["synonyms"][:1]}
            for entry in (config_entries(settings, altered) if altered else [])
        ]
    if name != str(context.broker.id):
        raise Refused(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.broker.id}, but received {name}",
        )
    return config_entries(settings, keys)


def describe_configs(request: Any, reply: Reply, context: Context) -> None:
    """List the settings of each resource."""
    results = []
    for resource in request.resources:
        fields = _name_fields(resource)
        try:
            configs = _described(context, resource)
            for entry in configs:
                if not request.include_synonyms:
                    entry["synonyms"] = []
                if getattr(request, "include_documentation", False):
                    entry["documentation"] = _documentation(entry["name"])
            fields |= {"configs": configs, "error_message": ""}
        except Refused as refused:
            unknown = refused.code is ErrorCode.unknown_topic_or_partition
            reason = "" if unknown else refused.reason
            fields |= {"error_code": refused.code, "error_message": reason}
        results.append(fields)
    reply({"results": results})


def _name_fields(resource: Any) -> dict[str, Any]:
    return {"resource_type": resource.resource_type, "resource_name": resource.resource_name}


def alter_configs(request: Any, reply: Reply, context: Context) -> None:
    """Replace each resource's settings."""

    def new_settings(settings: Settings, resource: Any) -> dict[str, str]:
        _check_once(resource)
        own = {}
        for entry in resource.configs:
            if entry.value is None:
                raise Refused(ErrorCode.invalid_request, f"Null value not supported: {entry.name}")
            own[entry.name] = entry.value
        return own

    _alter(request, reply, context, new_settings)


def incremental_alter_configs(request: Any, reply: Reply, context: Context) -> None:
    """Set, delete, append to or subtract from settings of each resource."""

    def new_settings(settings: Settings, resource: Any) -> dict[str, str]:
        own = dict(settings.own)
        _check_once(resource)
        for entry in resource.configs:
            _change(own, settings, entry)
        return own

    _alter(request, reply, context, new_settings)


def _check_once(resource: Any) -> None:
    names = [entry.name for entry in resource.configs]
    if len(set(names)) != len(names):
        raise Refused(ErrorCode.invalid_request, "a setting is listed twice")


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
        raise Refused(
            ErrorCode.invalid_config, f"operation {operation} needs a list setting, got {name}"
        )
    parts = [part for part in own.get(name, settings.text(name)).split(",") if part]
    given = [part.strip() for part in entry.value.split(",")]
    if operation == _APPEND:
        parts += [part for part in given if part not in parts]
    else:
        parts = [part for part in parts if part not in given]
    own[name] = ",".join(parts)


def _alter(
    request: Any,
    reply: Reply,
    context: Context,
    new_settings: Callable[[Settings, Any], dict[str, str]],
) -> None:
    responses = []
    for resource in request.resources:
        fields = _name_fields(resource)
        try:
            settings = _settings_of(context, resource.resource_type, resource.resource_name)
            own = _checked(settings, new_settings(settings, resource))
            if not request.validate_only:
                settings.replace(own)
                for partition in context.broker.cluster.controller.partitions():
                    partition.on_settings_changed()
        except Refused as refused:
            fields |= refused.fields
        except InvalidConfig as error:
            fields |= {"error_code": ErrorCode.invalid_config, "error_message": str(error)}
        responses.append(fields)
    reply({"responses": responses})


def _checked(settings: Settings, own: Mapping[str, str]) -> dict[str, str]:
    """The values, checked; or Refused, or InvalidConfig if a client may not set them."""
    if settings.definitions is TOPIC:
        checked = {name: settings.checked(name, value) for name, value in own.items()}
        check_together(Settings(TOPIC, [Layer(TOPIC_CONFIG, checked)], settings.beneath))
        return checked
    checked = {}
    for name, value in own.items():
        # Kafka's brokers accept unknown names, which may be a plug-in's.
        if name not in BROKER:
            continue
        if BROKER[name].read_only and value != settings.own.get(name):
            raise Refused(ErrorCode.invalid_request, f"{name} cannot be changed while brokers run")
        try:
            checked[name] = settings.checked(name, value)
        except InvalidConfig as error:
            raise Refused(ErrorCode.invalid_request, str(error)) from None
    return checked
