"""Columns: turn a user's DataFrame into operations, signals or cancels; see `replay/columns.py`.

Only Spark's own expressions are used. So it works on batch and streaming DataFrames, and no row
goes through Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.errors import BadTable, WrongType
from sojourn.replay.columns import (
    Column,
    Columns,
    Constant,
    Source,
    Template,
    cancel_columns,
    operation_columns,
    signal_columns,
)
from sojourn.replay.rows import CORRUPT

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame


def as_operations(df: DataFrame, **how: Any) -> DataFrame:
    """Make operations of a DataFrame as it is; `sojourn.replay.as_operations` says how."""
    return apply_columns(operation_columns(**how), df)


def as_signals(df: DataFrame, **how: Any) -> DataFrame:
    """Make signals of a DataFrame as it is; `sojourn.replay.as_signals` says how."""
    return apply_columns(signal_columns(**how), df)


def as_cancels(df: DataFrame, **how: Any) -> DataFrame:
    """Make cancels of a DataFrame as it is; `sojourn.replay.as_cancels` says how."""
    return apply_columns(cancel_columns(**how), df)


def apply_columns(columns: Columns, df: DataFrame) -> DataFrame:
    """Return the DataFrame with our columns, and of operations those that pass through."""
    if not hasattr(df, "withColumn"):
        raise WrongType(
            f"{columns.table} must be a Spark DataFrame, got {type(df).__name__}; "
            f"sojourn.replay.as_{columns.table} takes Arrow tables"
        )
    plan = columns.plan(df.columns)
    for name, values in plan.where:
        if values is None:
            matches = _column(name).isNotNull()
        else:
            matches = _text(df, name, columns.table, or_boolean=True).isin(*values)
        if CORRUPT in df.columns:  # nobody knows what was in there
            matches = matches | _column(CORRUPT).isNotNull()
        df = df.where(matches)
    made = [_made(df, source, columns.table).alias(name) for name, source in plan.made.items()]
    return df.select(*made, *(_column(name) for name in plan.kept))


def _made(df: DataFrame, source: Source, table: str) -> Expression:
    from pyspark.sql import functions as F

    if isinstance(source, Column):
        return _column(source.name)
    if isinstance(source, Constant):
        return F.lit(source.value).cast("long")
    if isinstance(source, Template):
        return _joined(df, source, table)
    return F.array(
        *(
            F.struct(_joined(df, key, table).alias("key"), F.lit(n).cast("long").alias("offset"))
            for key, n in source.items
        )
    )


def _joined(df: DataFrame, template: Template, table: str) -> Expression:
    from pyspark.sql import functions as F

    return F.concat(
        *(
            _text(df, text, table) if is_column else F.lit(text)
            for is_column, text in template.pieces
        )
    )


def _text(df: DataFrame, name: str, table: str, or_boolean: bool = False) -> Expression:
    """Return text, integers and bytes as `names.as_text` has them."""
    from pyspark.sql import types as T

    kind, column = df.schema[name].dataType, _column(name)
    if isinstance(kind, T.BinaryType):
        return text_of_bytes(column)
    if isinstance(kind, (T.StringType, T.IntegralType, T.NullType)) or (
        (isinstance(kind, T.DecimalType) and kind.scale == 0)
        or (or_boolean and isinstance(kind, T.BooleanType))
    ):
        return column.cast("string")
    raise BadTable(
        f"{table}: the column {name!r} must be text, integers or bytes, found "
        f"{kind.simpleString()}; cast it to text"
    )


def text_of_bytes(column: Expression) -> Expression:
    """Return bytes as text if they are UTF-8, else in hex, as `names.text_of` does."""
    from pyspark.sql import functions as F

    text = column.cast("string")
    in_hex = F.concat(F.lit("0x"), F.lower(F.hex(column)))
    return F.when(F.is_valid_utf8(text), text).otherwise(in_hex)


def _column(name: str) -> Expression:
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`")
