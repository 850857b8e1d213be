"""A refusal in the form of any API: for each thing that was asked, an entry of the response that carries the code.

Most responses have no place for an error of the whole request, but one for each topic, partition, group or resource
that it named.  What a request and its response call alike is the same thing; a partition's number has three names; a
list of the response that can carry errors answers the list of the request.
"""

from __future__ import annotations

from broker_lite.apis.slices import Steps, at_once
from broker_lite.wire.layout import Array, Scalar, Slot, Struct, layout

_CODES = ("error_code", "partition_error_code")
_TEXT = "error_message"
_NUMBERS = ("partition_index", "partition", "index")
_NAMES = ("name", "topic", "group_id", "key", "transactional_id", "user", *_NUMBERS)
"""What a thing is called that the request only has as a name or number."""
_UNKNOWN = ("offset", "watermark", "node_id", "port", "leader_id")
"""Where -1 says that nobody knows."""


def refused(asked: object, response: type, version: int, code: int, text: str | None) -> object | None:
    """The response that says `code` at the top, or else of everything in `asked`; None if it has no place for it."""
    return at_once(refused_stepwise(asked, response, version, code, text))


def refused_stepwise(asked: object, response: type, version: int, code: int, text: str | None) -> Steps[object | None]:
    """The same, entry by entry."""
    form = layout(response, version)
    if not any(slot.name in _CODES and slot.present for slot in form.slots):
        lists = [slot for slot in form.slots if slot.present and _carries_errors(slot)]
        if not any(_counterpart(asked, slot) for slot in lists):
            return None
        return (yield from _maker(form, type(asked), {}).make_stepwise(asked, code, text))
    values = {slot.name: _blank(slot) for slot in form.slots}
    values |= {slot.name: code for slot in form.slots if slot.name in _CODES}
    values |= {slot.name: text for slot in form.slots if slot.name == _TEXT}
    made: object = form.cls(**values)
    return made


def empty(asked: object, response: type, version: int) -> object:
    """The response to a request that named nothing, where there is no place for an error: Kafka's is empty too."""
    return _maker(layout(response, version), type(asked), {}).make(asked, 0, None)


class _Maker:
    """How one kind of entry is made of one kind of part of a request: looked up once for a thousand of them."""

    __slots__ = ("_blank", "_cls", "_codes", "_copied", "_lists", "_makers", "_named", "_texts")

    def __init__(self, form: Struct, kind: type, makers: _Makers) -> None:
        self._cls, self._makers = form.cls, makers
        self._codes = [slot.name for slot in form.slots if slot.name in _CODES]
        self._texts = [slot.name for slot in form.slots if slot.name == _TEXT]
        self._lists: list[tuple[Slot, Struct]] = []
        self._named: list[str] = []
        self._copied: list[tuple[str, list[str], bool]] = []
        self._blank = [slot for slot in form.slots if slot.name not in _CODES and slot.name != _TEXT]
        for slot in self._blank:
            if _carries_errors(slot):
                assert isinstance(slot.type, Array)
                assert isinstance(slot.type.element, Struct)
                self._lists.append((slot, slot.type.element))
            elif isinstance(slot.type, Scalar) and kind in (str, int):
                if slot.name in _NAMES and (kind is int) == (slot.name in _NUMBERS):
                    self._named.append(slot.name)
            elif isinstance(slot.type, Scalar):
                names = _NUMBERS if slot.name in _NUMBERS else (slot.name,)
                self._copied.append((slot.name, [name for name in names if hasattr(kind, name)], slot.nullable))

    def make_stepwise(self, asked: object, code: int, text: str | None) -> Steps[object]:
        values = self._values(asked, code, text)
        for slot, element in self._lists:
            entries: list[object] = []
            for one in _counterpart(asked, slot):
                entries.append(_maker(element, type(one), self._makers).make(one, code, text))
                yield 0
            values[slot.name] = entries
        made: object = self._cls(**values)
        return made

    def make(self, asked: object, code: int, text: str | None) -> object:
        values = self._values(asked, code, text)
        for slot, element in self._lists:
            values[slot.name] = [
                _maker(element, type(one), self._makers).make(one, code, text) for one in _counterpart(asked, slot)
            ]
        made: object = self._cls(**values)
        return made

    def _values(self, asked: object, code: int, text: str | None) -> dict[str, object]:
        """Of everything but the lists."""
        values = {slot.name: _blank(slot) for slot in self._blank}
        for name in self._codes:
            values[name] = code
        for name in self._texts:
            values[name] = text
        for name in self._named:
            values[name] = asked
        for name, sources, nullable in self._copied:
            for source in sources:
                value = getattr(asked, source)
                if value is not None or nullable:
                    values[name] = value
                    break
        return values


_Makers = dict[tuple[int, type], _Maker]


def _maker(form: Struct, kind: type, makers: _Makers) -> _Maker:
    found = makers.get((id(form), kind))
    if found is None:
        found = makers[id(form), kind] = _Maker(form, kind, makers)
    return found


def _blank(slot: Slot) -> object:
    if slot.default == 0 and any(word in slot.name for word in _UNKNOWN):
        return -1
    return list(slot.default) if isinstance(slot.default, list) else slot.default


def _carries_errors(slot: Slot) -> bool:
    if not isinstance(slot.type, Array) or not isinstance(slot.type.element, Struct):
        return False
    inner = slot.type.element.slots
    return any(one.name in _CODES or _carries_errors(one) for one in inner)


def _counterpart(asked: object, slot: Slot) -> list[object]:
    """What the entries of this list answer: the request's list of the same name, or the first that is not empty."""
    if isinstance(asked, (str, int)):
        return []
    same = getattr(asked, slot.name, None)
    if isinstance(same, list) and same:
        return same
    names = [name for cls in type(asked).__mro__ for name in getattr(cls, "__slots__", ())]
    lists = [value for name in names if isinstance(value := getattr(asked, name, None), list)]
    return next((value for value in lists if value), [])
