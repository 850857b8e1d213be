"""A refusal in the form of any API: for each thing that was asked, an entry of the response that carries the code.

Most responses have no place for an error of the whole request, but one for each topic, partition, group or resource
that it named.  What a request and its response call alike is the same thing; a partition's number has three names; a
list of the response that can carry errors answers the list of the request.
"""

from __future__ import annotations

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
    form = layout(response, version)
    if not any(slot.name in _CODES and slot.present for slot in form.slots):
        lists = [slot for slot in form.slots if slot.present and _carries_errors(slot)]
        if not any(_counterpart(asked, slot) for slot in lists):
            return None
        return _entry(asked, form, code, text)
    values = {slot.name: _blank(slot) for slot in form.slots}
    values |= {slot.name: code for slot in form.slots if slot.name in _CODES}
    values |= {slot.name: text for slot in form.slots if slot.name == _TEXT}
    made: object = form.cls(**values)
    return made


def empty(asked: object, response: type, version: int) -> object:
    """The response to a request that named nothing, where there is no place for an error: Kafka's is empty too."""
    return _entry(asked, layout(response, version), 0, None)


def _entry(asked: object, form: Struct, code: int, text: str | None) -> object:
    values: dict[str, object] = {}
    for slot in form.slots:
        if slot.name in _CODES:
            values[slot.name] = code
        elif slot.name == _TEXT:
            values[slot.name] = text
        elif _carries_errors(slot):
            assert isinstance(slot.type, Array)
            element = slot.type.element
            assert isinstance(element, Struct)
            values[slot.name] = [_entry(one, element, code, text) for one in _counterpart(asked, slot)]
        else:
            values[slot.name] = _copied(asked, slot)
    made: object = form.cls(**values)
    return made


def _copied(asked: object, slot: Slot) -> object:
    if isinstance(slot.type, Scalar):
        if isinstance(asked, (str, int)):
            if slot.name in _NAMES and isinstance(asked, int) == (slot.name in _NUMBERS):
                return asked
        else:
            for name in _NUMBERS if slot.name in _NUMBERS else (slot.name,):
                value = getattr(asked, name, None)
                if value is not None or (slot.nullable and hasattr(asked, name)):
                    return value
    return _blank(slot)


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
