"""The source of a reader: one message at one version, as straight-line Python.

Here is the middle of the one for EndTxnRequest at version 3, as a debugger shows it:

    n = buf[pos]
    pos += 1
    if n > 127: n, pos = more(buf, pos, n)
    n -= 1
    stop = pos + n
    if n < 0 or n > 32767 or stop > end: raise lie("transactional_id", n, end - pos)
    m0.transactional_id = text = buf[pos:stop].tobytes().decode("utf-8", "replace")

Neighbours of fixed size, and the length or the first varint byte that follows them, are unpacked
in one call.  Structs are unrolled in place, so an array of structs is a loop and not a call.

What is always true: a length or count is compared with the bytes that are left before anything is
made of it, and a count also pays from `left`, the budget, so that no message makes more than
`budget * UNIT` bytes of objects beside the bytes it brought itself.  Text that is not ASCII grows
up to fourfold when decoded and pays for that too.
"""

from __future__ import annotations

from broker_lite.wire.layout import FIXED, SIZE, Array, Scalar, Slot, Struct, Type, least_size, weight


class ReaderSource:
    """Collects the lines; `names` are the objects that the lines speak of."""

    def __init__(self, shape: Struct) -> None:
        self.lines = ["def read(buf, pos, left):", "    end = len(buf)"]
        self.names: dict[str, object] = {}
        self.formats: set[str] = set()
        self._indent = 1
        self._depth = 0
        self._fixed: list[tuple[str, str, int]] = []
        self._struct(shape, "m0")
        self._flush()
        self._line("return m0, pos")

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    def _name(self, prefix: str, value: object) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def _later(self, code: str, target: str, size: int) -> None:
        """Read this together with its neighbours."""
        self._fixed.append((code, target, size))

    def _flush(self) -> None:
        """Read what was put off, in one call."""
        if not self._fixed:
            return
        codes = "".join(code for code, _, _ in self._fixed)
        if codes == "B":
            self._line(f"{self._fixed.pop()[1]} = buf[pos]")
            self._line("pos += 1")
            return
        targets = "".join(f"{target}, " for _, target, _ in self._fixed)
        self.formats.add(codes)
        self._line(f"{targets.strip()} = unpack_{codes.replace('?', 'T')}(buf, pos)")
        self._line(f"pos += {sum(size for _, _, size in self._fixed)}")
        self._fixed.clear()

    def _varint(self, target: str) -> None:
        self._later("B", target, 1)
        self._flush()
        self._line(f"if {target} > 127: {target}, pos = more(buf, pos, {target})")

    def _struct(self, shape: Struct, var: str) -> None:
        self._flush()
        self._line(f"{var} = new({self._name(shape.cls.__name__, shape.cls)})")
        for slot in [*shape.absent(), *shape.tagged()]:
            self._line(f"{var}.{slot.name} = {self._default(slot)}")
        for slot in shape.plain():
            self._value(slot.name, slot.type, f"{var}.{slot.name}", shape.flexible, slot.nullable)
        if shape.flexible:
            self._tags(shape, var)

    def _default(self, slot: Slot) -> str:
        value = slot.default
        if isinstance(value, list):
            return "[]"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self._name("default", value)

    def _value(self, name: str, kind: Type, target: str, flexible: bool, nullable: bool) -> None:
        match kind:
            case Scalar(wire) if wire in FIXED:
                self._later(FIXED[wire], target, SIZE[wire])
            case Scalar(wire):
                self._length("h" if wire == "string" else "i", flexible)
                self._sized(name, wire, target, flexible, nullable)
            case Array():
                self._length("i", flexible)
                self._array(name, kind, target, flexible, nullable)
            case Struct():
                self._one_struct(kind, target, nullable)

    def _length(self, code: str, flexible: bool) -> None:
        if flexible:
            self._varint("n")
            self._line("n -= 1")
        else:
            self._later(code, "n", 2 if code == "h" else 4)
            self._flush()

    def _null_or(self, target: str, nullable: bool) -> None:
        """Open a block for the value that is not null; the caller closes it."""
        if nullable:
            self._line(f"if n < 0: {target} = None")
            self._line("else:")
            self._indent += 1

    def _sized(self, name: str, wire: str, target: str, flexible: bool, nullable: bool) -> None:
        self._null_or(target, nullable)
        self._line("stop = pos + n")
        below = "" if nullable else "n < 0 or "
        above = "n > 32767 or " if wire == "string" and flexible else ""
        self._line(f'if {below}{above}stop > end: raise lie("{name}", n, end - pos)')
        match wire:
            case "string":
                self._line(f'{target} = text = buf[pos:stop].tobytes().decode("utf-8", "replace")')
                self._line("if not text.isascii():")
                self._line("    left -= n >> 5")
                self._line(f'    if left < 0: raise greed("{name}", n)')
            case "bytes":
                self._line(f"{target} = bytes(buf[pos:stop])")
            case "records":
                self._line(f"{target} = buf[pos:stop]")
        self._line("pos = stop")
        self._indent -= nullable

    def _array(self, name: str, kind: Array, target: str, flexible: bool, nullable: bool) -> None:
        element = kind.element
        self._null_or(target, nullable)
        below = "" if nullable else "n < 0 or "
        self._line(f'if {below}n * {least_size(element, flexible)} > end - pos: raise lie("{name}", n, end - pos)')
        cost = weight(element)
        self._line(f"left -= n * {cost}" if cost > 1 else "left -= n")
        self._line(f'if left < 0: raise greed("{name}", n)')
        match element:
            case Scalar("uuid"):
                self._line(f"{target} = uuids(buf, pos, n)")
                self._line("pos += n * 16")
            case Scalar(wire) if wire in FIXED:
                self._line(f'{target} = [*unpack_from(f">{{n}}{FIXED[wire]}", buf, pos)]')
                self._line(f"pos += n * {SIZE[wire]}")
            case _:
                self._loop(name, element, target, flexible)
        self._indent -= nullable

    def _loop(self, name: str, element: Scalar | Struct, target: str, flexible: bool) -> None:
        self._depth += 1
        item, items = f"m{self._depth}", f"list{self._depth}"
        self._line(f"{target} = {items} = []")
        self._line("for _ in range(n):")
        self._indent += 1
        if isinstance(element, Struct):
            self._struct(element, item)
        else:
            self._value(name, element, item, flexible, False)
        self._flush()
        self._line(f"{items}.append({item})")
        self._indent -= 1
        self._depth -= 1

    def _one_struct(self, kind: Struct, target: str, nullable: bool) -> None:
        self._depth += 1
        var = f"m{self._depth}"
        if nullable:
            self._later("b", "n", 1)
            self._flush()
        self._null_or(target, nullable)
        self._struct(kind, var)
        self._flush()
        self._line(f"{target} = {var}")
        self._indent -= nullable
        self._depth -= 1

    def _tags(self, shape: Struct, var: str) -> None:
        self._later("B", "n", 1)
        self._flush()
        known = shape.tagged()
        if not known:
            self._line("if n: pos = skip(buf, pos, n)")
            return
        edge = f"edge{self._depth}"
        self._line("if n:")
        self._indent += 1
        self._line("if n > 127: n, pos = more(buf, pos, n)")
        self._line(f'if n > MAX_TAGS: raise greed("tags of {shape.cls.__name__}", n)')
        self._line("for _ in range(n):")
        self._indent += 1
        self._varint("tag")
        self._varint("n")
        self._line(f"{edge} = pos + n")
        self._line(f'if {edge} > end: raise lie("a tag of {shape.cls.__name__}", n, end - pos)')
        for number, slot in enumerate(known):
            self._line(f"{'elif' if number else 'if'} tag == {slot.tag}:")
            self._indent += 1
            self._value(slot.name, slot.type, f"{var}.{slot.name}", True, slot.nullable)
            self._flush()
            self._line(f'if pos != {edge}: raise lie("{slot.name}", pos, {edge})')
            self._indent -= 1
        self._line(f"else: pos = {edge}")
        self._indent -= 2
