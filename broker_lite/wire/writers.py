"""The source of a writer: one message at one version, as straight-line Python.

A writer collects small parts and joins them once.  Neighbours of fixed size, and the length that
follows them, are packed in one call.  Records are never copied: what was written so far becomes one
piece, the records the next, whatever kind of object they are.

A field that the version does not have is dropped when the message is a response: old clients get
what they can understand.  Anything else refuses to lose a value that is not the default, unless the
field is `ignorable`: a client must not believe it asked for something that never left the house.

In parts, for what is long: the same lines, but a generator that gives what was written so far whenever that is enough,
so that whoever asks can do something else in between, or stop.
"""

from __future__ import annotations

from typing import Final

from broker_lite.wire.layout import FIXED, Array, Scalar, Slot, Struct, Type

PART_BYTES: Final = 262_144
PART_FIELDS: Final = 8_192
"""A part ends when it has so many bytes of text, or so many fields: some milliseconds of work."""


class WriterSource:
    """Collects the lines; `names` are the objects that the lines speak of."""

    def __init__(self, shape: Struct, *, may_lose: bool, in_parts: bool = False) -> None:
        self.lines = ["def write(m0):", "    pieces = []", "    parts = []", "    w = parts.append"]
        self.names: dict[str, object] = {
            "ZERO": b"\x00",
            "ONE": b"\x01",
            "MINUS_ONE_8": b"\xff",
            "MINUS_ONE_32": b"\xff\xff\xff\xff",
        }
        self.formats: set[str] = set()
        self._may_lose = may_lose
        self._in_parts = in_parts
        self._indent = 1
        self._depth = 0
        self._fixed: list[tuple[str, str]] = []
        if in_parts:
            self._line("size = 0")
        self._struct(shape, "m0")
        self._flush()
        self._line(self._give("join(parts)"))
        self._line("return pieces")

    def _give(self, piece: str) -> str:
        return f"yield {piece}" if self._in_parts else f"pieces.append({piece})"

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    def _name(self, value: object) -> str:
        name = f"default_{len(self.names)}"
        self.names[name] = value
        return name

    def _later(self, code: str, value: str) -> None:
        """Write this together with its neighbours."""
        self._fixed.append((code, value))

    def _flush(self) -> None:
        """Write what was put off, in one call."""
        if not self._fixed:
            return
        codes = "".join(code for code, _ in self._fixed)
        values = [value for _, value in self._fixed if value]
        if not values:
            self._line(f"w({bytes(len(codes))!r})")
        else:
            self.formats.add(codes)
            self._line(f"w(pack_{codes.replace('?', 'T')}({', '.join(values)}))")
        self._fixed.clear()

    def _varint(self, value: str) -> None:
        self._flush()
        self._line(f"w(short[{value}] if {value} < 128 else varint({value}))")

    def _struct(self, shape: Struct, var: str) -> None:
        if not self._may_lose:
            for slot in shape.absent():
                if not slot.ignorable:
                    self._line(f'if {self._differs(slot, f"{var}.{slot.name}")}: raise lost("{slot.name}")')
        for slot in shape.plain():
            self._value(slot.name, slot.type, f"{var}.{slot.name}", shape.flexible, slot.nullable)
        if shape.flexible:
            self._tags(shape, var)

    def _differs(self, slot: Slot, value: str) -> str:
        """An expression: is this anything but the default?"""
        default = slot.default
        if default is None:
            return f"{value} is not None"
        if isinstance(default, list):
            return f"{value} or {value} is None"
        if type(default) in (bool, int, str, bytes):
            return f"{value} != {default!r}"
        name = self._name(default)
        return f"{value} is not {name} and {value} != {name}"

    def _value(self, name: str, kind: Type, value: str, flexible: bool, nullable: bool) -> None:
        match kind:
            case Scalar(wire) if wire in FIXED:
                self._later(FIXED[wire], value)
            case Scalar("string"):
                self._sized("h", value, "text.encode()", flexible, nullable)
                self._data()
            case Scalar("bytes"):
                self._sized("i", value, "text", flexible, nullable)
                self._data()
            case Scalar():
                self._records(value, flexible)
            case Array():
                self._array(name, kind, value, flexible, nullable)
            case Struct():
                self._one_struct(name, kind, value, nullable)

    def _data(self) -> None:
        self._line("w(data)")
        if self._in_parts:
            self._line("size += n")

    def _sized(self, code: str, value: str, as_bytes: str, flexible: bool, nullable: bool) -> None:
        self._line(f"text = {value}")
        extra = " + 1" if flexible else ""
        if nullable:
            self._line(f"if text is None: data, n = b'', {0 if flexible else -1}")
            self._line("else:")
            self._line(f"    data = {as_bytes}")
            self._line(f"    n = len(data){extra}")
        else:
            self._line(f"data = {as_bytes}")
            self._line(f"n = len(data){extra}")
        if flexible:
            if code == "h":
                self._line("if n > 32768: raise too_long(n - 1)")
            self._varint("n")
        else:
            self._later(code, "n")
            self._flush()

    def _records(self, value: str, flexible: bool) -> None:
        self._line(f"data = {value}")
        if flexible:
            self._line("n = 0 if data is None else len(data) + 1")
            self._varint("n")
        else:
            self._line("n = -1 if data is None else len(data)")
            self._later("i", "n")
            self._flush()
        self._line("if data:")
        self._line(f"    {self._give('join(parts)')}")
        self._line("    parts.clear()")
        self._line(f"    {self._give('data')}")

    def _array(self, name: str, kind: Array, value: str, flexible: bool, nullable: bool) -> None:
        items = f"list{self._depth}"
        self._line(f"{items} = {value}")
        if nullable:
            self._flush()
            self._line(f"if {items} is None: w({'ZERO' if flexible else 'MINUS_ONE_32'})")
            self._line("else:")
            self._indent += 1
        if flexible:
            self._line(f"n = len({items}) + 1")
            self._varint("n")
        else:
            self._later("i", f"len({items})")
            self._flush()
        match kind.element:
            case Scalar(wire) if wire in FIXED and wire != "uuid":
                self._line(f'if {items}: w(pack(f">{{len({items})}}{FIXED[wire]}", *{items}))')
            case element:
                self._loop(name, element, items, flexible)
        self._indent -= nullable

    def _loop(self, name: str, element: Scalar | Struct, items: str, flexible: bool) -> None:
        self._depth += 1
        item = f"m{self._depth}"
        self._line(f"for {item} in {items}:")
        self._indent += 1
        before = len(self.lines)
        if isinstance(element, Struct):
            self._struct(element, item)
        else:
            self._value(name, element, item, flexible, False)
        self._flush()
        if len(self.lines) == before:
            self._line("pass")
        if self._in_parts:
            self._line(f"if size > {PART_BYTES} or len(parts) > {PART_FIELDS}:")
            self._line("    yield join(parts)")
            self._line("    parts.clear()")
            self._line("    size = 0")
        self._indent -= 1
        self._depth -= 1

    def _one_struct(self, name: str, kind: Struct, value: str, nullable: bool) -> None:
        self._depth += 1
        var = f"m{self._depth}"
        self._line(f"{var} = {value}")
        if nullable:
            self._flush()
            self._line(f"if {var} is None: w(MINUS_ONE_8)")
            self._line("else:")
            self._indent += 1
            self._line("w(ONE)")
        else:
            self._line(f'if {var} is None: raise null("{name}")')
        self._struct(kind, var)
        self._flush()
        self._indent -= nullable
        self._depth -= 1

    def _tags(self, shape: Struct, var: str) -> None:
        known = shape.tagged()
        if not known:
            self._later("x", "")
            return
        self._flush()
        flags = []
        for slot in known:
            flags.append(f"tag{self._depth}_{slot.tag}")
            self._line(f"{flags[-1]} = bool({self._differs(slot, f'{var}.{slot.name}')})")
        self._line(f"n = {' + '.join(flags)}")
        self._line("w(short[n])")
        for slot, flag in zip(known, flags, strict=True):
            self._line(f"if {flag}:")
            self._indent += 1
            self._tag(slot, var)
            self._indent -= 1

    def _tag(self, slot: Slot, var: str) -> None:
        """A tagged field is written aside first, because its size stands in front of it."""
        outer = f"w{self._depth}"
        self._line(f"{outer}, aside{self._depth} = w, []")
        self._line(f"w = aside{self._depth}.append")
        self._value(slot.name, slot.type, f"{var}.{slot.name}", True, slot.nullable)
        self._flush()
        self._line(f"data, w = join(aside{self._depth}), {outer}")
        self._line("n = len(data)")
        self._line(f"w(varint({slot.tag}))")
        self._varint("n")
        self._line("w(data)")
