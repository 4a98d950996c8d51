"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sojourn.service.endpoints import Action
from sojourn.service.limits import Limits
from sojourn.service.schemas import components, ref
from sojourn.service.state_schema import state_schema

VERSION = "1"

_TEXTS = {
    400: "The request, a parameter or the row cannot mean anything.",
    401: "A token is needed.",
    403: "The token, or the origin, may not do this.",
    404: "It is not known.",
    405: "The path does not take this method.",
    408: "The request took too long to arrive.",
    409: "The id was submitted with other content, or the name is in use.",
    410: "Retention removed outcomes before they were read.",
    413: "The body or the number of rows is above the limit.",
    415: "The body is not plain JSON.",
    421: "The Host header does not name this service.",
    429: "As many wait as are allowed; try later.",
    500: "A bug; the log has it under the id.",
    503: "It is closing, or the disk refused.",
    507: "The disk is full.",
}


def document(actions: Iterable[Action], limits: Limits) -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for action in actions:
        paths.setdefault(action.plain_path, {})[action.method.lower()] = _operation(action, limits)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sojourn",
            "version": VERSION,
            "description": "Operations that wait, durably, until their events have happened or "
            "time runs out.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components(limits), "State": state_schema()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(action: Action, limits: Limits) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{action.method.lower()}{action.plain_path}",
        "summary": action.summary,
        "responses": {
            str(status): _response(*answer) for status, answer in sorted(_answers(action).items())
        },
    }
    if action.scope is not None:
        operation["security"] = [{}, {"token": []}]
        operation["description"] = f"Needs the scope {action.scope} where there are tokens."
    if action.parameters:
        operation["parameters"] = [
            {
                "name": each.name,
                "in": each.place,
                "description": each.description,
                "required": each.place == "path",
                "schema": _parameter_schema(each, limits),
            }
            for each in action.parameters
        ]
    if action.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _fill(action.body, limits)}},
        }
    return operation


def _answers(action: Action) -> dict[int, Any]:
    """What is said of the action, and what can be answered to any of its kind."""
    statuses = [400, 405, 421, 500, 503]
    if action.scope is not None:
        statuses += [401, 403]
    if action.method != "GET":
        statuses += [403, 408, 409, 413, 415, 429, 507]
    elif action.parameters:
        statuses += [410, 429]
    if "{" in action.path:
        statuses.append(404)
    errors = {status: (_TEXTS[status], ref("Error")) for status in statuses}
    return errors | action.answers


def _response(description: str, schema: Any) -> dict[str, Any]:
    if schema is None:
        return {"description": description}
    if isinstance(schema, str):
        return {"description": description, "content": {schema: {"schema": {"type": "string"}}}}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameter_schema(parameter: Any, limits: Limits) -> dict[str, Any]:
    if parameter.kind == "string":
        return {"type": "string", "minLength": 1}
    schema: dict[str, Any] = {
        "type": "integer",
        "minimum": parameter.least,
        "maximum": parameter.most(limits),
    }
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def _fill(schema: Any, limits: Limits) -> Any:
    """Limits that the schema names, as numbers."""
    if isinstance(schema, dict):
        return {
            name: getattr(limits, value) if name == "maxItems" else _fill(value, limits)
            for name, value in schema.items()
        }
    if isinstance(schema, list):
        return [_fill(value, limits) for value in schema]
    return schema
