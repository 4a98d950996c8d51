"""DDL: columns as Spark's SQL writes them, made from the Arrow schemas that the stages use."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_TYPES: dict[Any, str] = {
    pa.int8(): "byte",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
}


def ddl(schema: pa.Schema) -> str:
    """Return the columns of a schema: "id string, at_ms long"."""
    return ", ".join(f"{field.name} {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_type(field.type)}' for field in kind)}>"
    return _TYPES[kind]
