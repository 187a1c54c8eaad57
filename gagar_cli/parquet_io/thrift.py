"""Thrift's compact protocol, as far as Parquet's footer needs it: read, change, write again.

A structure is read field by field, whatever its fields mean, so that what a later version of the
format adds stays as it is. The protocol: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from dataclasses import dataclass, field
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_FIXED = {BYTE: 1, DOUBLE: 8, UUID: 16}
_INTEGERS = (I16, I32, I64)
_LONG_LIST = 15


@dataclass(slots=True)
class Items:
    """A list: the type of its items, and these."""

    kind: int
    values: list[Any] = field(default_factory=list)


class Struct(dict[int, tuple[int, Any]]):
    """A structure: type and value of each field, by its number.

    Values: int for integers, bool, Items, Struct; bytes for text and for what has a fixed size.
    """

    def value(self, number: int) -> Any:  # noqa: ANN401
        """Return a field's value; None where it is not set."""
        return self[number][1] if number in self else None

    def integer(self, number: int) -> int:
        """Return a field's value; 0 where it is not set."""
        return int(self.value(number) or 0)

    def change(self, number: int, value: Any) -> None:  # noqa: ANN401
        """Set the value of a field that is there."""
        self[number] = (self[number][0], value)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, unread: int = 0) -> Struct:
        result = Struct()
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._integer()
            if kind in (TRUE, FALSE):
                result[number] = (TRUE, kind == TRUE)
            elif number == unread:
                result[number] = (kind, self._items(unread=True))
            else:
                result[number] = (kind, self._value(kind))
        return result

    def _value(self, kind: int) -> Any:  # noqa: ANN401
        if kind in _INTEGERS:
            return self._integer()
        if kind == BINARY:
            return self._take(self._count())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            return self._items()
        if kind in (TRUE, FALSE):  # as an item, a byte of its own
            return self._byte() == TRUE
        if kind in _FIXED:
            return self._take(_FIXED[kind])
        raise ValueError(f"a field of type {kind}")

    def _items(self, *, unread: bool = False) -> Items:
        head = self._byte()
        size, kind = head >> 4, head & 15
        if size == _LONG_LIST:
            size = self._count()
        if unread:
            return Items(kind, [self._skipped(kind) for _ in range(size)])
        return Items(kind, [self._value(kind) for _ in range(size)])

    def _skipped(self, kind: int) -> bytes:
        begin = self._at
        self._value(kind)
        return self._data[begin : self._at]

    def _integer(self) -> int:
        count = self._count()
        return (count >> 1) ^ -(count & 1)

    def _count(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004  the high bit says that more follow
                return result
            shift += 7

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("it ends too early")
        self._at += size
        return taken


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray()

    def struct(self, struct: Struct) -> None:
        last = 0
        for number, (kind, value) in sorted(struct.items()):
            code = (TRUE if value else FALSE) if kind == TRUE else kind
            step = number - last
            if 0 < step < 16:  # noqa: PLR2004  fits in four bits
                self.out.append(step << 4 | code)
            else:
                self.out.append(code)
                self._integer(number)
            if kind != TRUE:
                self._value(kind, value)
            last = number
        self.out.append(0)

    def _value(self, kind: int, value: Any) -> None:  # noqa: ANN401
        if kind == STRUCT and isinstance(value, bytes):  # written already
            self.out += value
        elif kind in _INTEGERS:
            self._integer(value)
        elif kind == BINARY:
            self._count(len(value))
            self.out += value
        elif kind == STRUCT:
            self.struct(value)
        elif kind in (LIST, SET):
            self._items(value)
        elif kind in (TRUE, FALSE):
            self.out.append(TRUE if value else FALSE)
        else:
            self.out += value

    def _items(self, items: Items) -> None:
        size = len(items.values)
        self.out.append(min(size, _LONG_LIST) << 4 | items.kind)
        if size >= _LONG_LIST:
            self._count(size)
        for value in items.values:
            self._value(items.kind, value)

    def _integer(self, value: int) -> None:
        self._count(value << 1 if value >= 0 else (-value << 1) - 1)

    def _count(self, value: int) -> None:
        while value > 127:  # noqa: PLR2004
            self.out.append(value & 127 | 128)
            value >>= 7
        self.out.append(value)


def read_struct(data: bytes, unread: int = 0) -> Struct:
    """Read a structure; what is not one raises ValueError.

    unread: the number of a field whose items are left as the bytes that they are written in.
    """
    return _Reader(data).struct(unread)


def write_struct(struct: Struct) -> bytes:
    """Write a structure; one within it may be given as its bytes."""
    writer = _Writer()
    writer.struct(struct)
    return bytes(writer.out)
