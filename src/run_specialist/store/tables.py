"""The tables for SQLAlchemy, made from `schema.py`."""

from sqlalchemy import Boolean, Column, Dialect, Float, Index, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.types import TypeDecorator

from run_specialist.store.packing import pack, unpack
from run_specialist.store.schema import SCHEMAS


class PackedText(TypeDecorator[str]):
    """A packed text."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's
        """Pack a text."""
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        """Return the original text."""
        return None if value is None else unpack(value)


_TYPES = {
    "text": String,
    "packed": PackedText,
    "folded": LargeBinary,
    "integer": Integer,
    "float": Float,
    "flag": Boolean,
}
metadata = MetaData()


def _table(name: str) -> Table:
    schema = SCHEMAS[name]
    columns: list[Column[object]] = [
        Column(column, _TYPES[kind.removesuffix("?")], primary_key=column in schema.key, nullable=kind.endswith("?"))
        for column, kind in schema.columns.items()
    ]
    return Table(name, metadata, *columns, *(Index(index, *of) for index, of in schema.indexes.items()))


runs, turns, messages, calls, outputs, events, changes, search, batches, items, gates = map(_table, SCHEMAS)
