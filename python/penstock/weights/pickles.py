# SPDX-License-Identifier: Apache-2.0

"""Parses pickles without executing anything in them.

A small interpreter executes only the opcodes that describe data. Names in a pickle are looked up in a table of
stand-ins, and nothing else can be called, created or changed; Python's own unpickler imports any name, and sizes its
memo as the file says. Work and memory are limited by the pickle's size: each byte of a hostile one could otherwise
create a set of 216 bytes.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.weights.stands import Kind, Made, Stand, Unknown, UnknownGlobal
from penstock.weights.tensors import WeightsError

PICKLE_BYTES_MAX = 100_000_000
STEPS_MAX = 50_000_000
MARKS_MAX = 10_000    # Limit of open marks (nested lists).
ROOM = 64 << 20       # Memory limit of a pickle's containers in bytes: a base,
ROOM_OF_A_BYTE = 16   # plus this for each of its bytes. In practice dicts with one number need the most: 26.
DICT_ITEM, SET_ITEM, OBJECT = 80, 64, 300  # Approximate overhead of containers.
_BARE = frozenset((tuple, list, dict, set, frozenset, bytes, bytearray, complex, Unknown))  # Types without a __dict__.
KEY_INTEGER_MAX = 1 << 60  # Larger integers can be chosen to collide.


def read_pickle(data: bytes, table: Mapping[str, Any], persistent: Callable[[Any], Any] | None = None,
                unknown: Callable[[str], Unknown] | None = None) -> Any:
    """Returns the data of a pickle. `table` has stand-ins by "module.name", `persistent` resolves persistent ids, and
    `unknown` makes stand-ins for names that the table lacks.

    Raises WeightsError for anything but plain data, and for invalid pickles.
    """
    if len(data) > PICKLE_BYTES_MAX:
        raise WeightsError(f"a pickle of {len(data)} bytes is not accepted: {PICKLE_BYTES_MAX} are expected at most")
    machine = _Machine(data, table, persistent, unknown or _refuse)
    try:
        return machine.run()
    except WeightsError:
        raise
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, RecursionError,
            struct.error) as error:
        raise WeightsError(f"the pickle makes no sense at its byte {machine.at}: {error}") from None


def _refuse(name: str) -> Unknown:
    raise UnknownGlobal(name)


class _Machine:
    def __init__(self, data: bytes, table: Mapping[str, Any], persistent: Callable[[Any], Any] | None,
                 unknown: Callable[[str], Unknown]) -> None:
        self.data, self.at = data, 0
        self._table, self._persistent, self._unknown = table, persistent, unknown
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []               # Picklers number their memo from 0 on.
        self._far: dict[int, Any] = {}           # Memo entries with other numbers.
        self._remembered_at = 0                  # The offset after the last opcode that stored a memo entry.
        self._room_left = ROOM + ROOM_OF_A_BYTE * len(data)
        self._copies_left = 4 * len(data) + 1000  # How many elements and bytes calls may still copy.

    def run(self) -> Any:
        steps = _STEPS
        for _ in range(STEPS_MAX):
            code = self.data[self.at]
            self.at += 1
            if code == _STOP:
                return self.stack.pop()
            step = steps.get(code)
            if step is None:
                raise WeightsError(f"the pickle has the instruction {code:#04x} at its byte {self.at - 1}: one of "
                                   "protocol 2 to 5 that describes plain data is expected")
            step(self)
        raise WeightsError(f"a pickle of over {STEPS_MAX} instructions is not accepted")

    def take(self, size: int) -> bytes:
        piece = self.data[self.at:self.at + size]
        if len(piece) != size:
            raise WeightsError("the pickle ends early")
        self.at += size
        return piece

    def skip(self, size: int) -> None:
        """Skips the protocol number and frame sizes, which are not needed."""
        self.take(size)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def text(self, size: int) -> str:
        """Like Python's own: text may have lone surrogates."""
        return self.take(size).decode("utf-8", "surrogatepass")

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        line = self.data[self.at:end].decode()
        self.at = end + 1
        return line

    def since_mark(self) -> list[Any]:
        mark = self._marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def drop(self) -> None:
        self.stack.pop()

    def drop_since_mark(self) -> None:
        self.since_mark()

    def mark(self) -> None:
        if len(self._marks) >= MARKS_MAX:
            raise WeightsError(f"a pickle that begins over {MARKS_MAX} lists within each other is not accepted")
        self._marks.append(len(self.stack))

    def put(self, index: int, nbytes: int) -> None:
        """For an opcode of `size` bytes."""
        if self.at - nbytes == self._remembered_at:
            raise WeightsError("the pickle remembers one object over and over")
        self._remembered_at = self.at
        if index == len(self._memo):
            self._memo.append(self.stack[-1])
        elif index < len(self._memo):
            self._memo[index] = self.stack[-1]
        else:
            self.take_room(DICT_ITEM)
            self._far[index] = self.stack[-1]

    def memoize(self) -> None:
        self.put(len(self._memo) + len(self._far), 1)

    def get(self, index: int) -> None:
        self.stack.append(self._memo[index] if index < len(self._memo) else self._far[index])

    def named(self, module: str, name: str) -> None:
        full = f"{module}.{name}"
        found = self._table.get(full)
        if found is None:
            shown = full[:200] if full.isprintable() else repr(full[:200])
            found = self._unknown(shown)
            self.take_room(sys.getsizeof(found) + len(shown))
        self.stack.append(found)

    def global_line(self) -> None:
        self.named(self.line(), self.line())

    def global_of_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise WeightsError("the pickle names something by what is no text")
        self.named(module, name)

    def reduce(self) -> None:
        arguments, stand = self.stack.pop(), self.stack.pop()
        if isinstance(stand, Unknown) and type(arguments) is tuple:
            return self.contain(stand.made_of(arguments))
        if not isinstance(stand, Stand) or type(arguments) is not tuple:
            raise WeightsError("the pickle calls what cannot be called")
        self._copies_left -= sum(len(each) for each in arguments if hasattr(each, "__len__"))
        if self._copies_left < 0:
            raise WeightsError("the pickle copies the same over and over")
        self.contain(stand.function(*arguments))

    def new(self) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        if isinstance(kind, Unknown) and type(arguments) is tuple:
            return self.contain(kind.made_of(arguments))
        if not isinstance(kind, Kind) or arguments != ():
            raise WeightsError("the pickle makes an object of what is no class")
        self.contain(Made(kind))

    def new_with_keywords(self) -> None:
        keywords, arguments, kind = self.stack.pop(), self.stack.pop(), self.stack.pop()
        if not isinstance(kind, Unknown) or type(arguments) is not tuple or type(keywords) is not dict:
            raise WeightsError("the pickle makes an object of what is no class")
        self.contain(kind.made_of((*arguments, keywords)))

    def build(self) -> None:
        state, thing = self.stack.pop(), self.stack[-1]
        if type(thing) is Unknown:
            thing.build(state)
        elif type(thing) is Made and thing.state is None:
            thing.state = state
        elif type(thing) is OrderedDict and type(state) is dict:
            # The version attributes of a module's state_dict.
            for name, value in state.items():
                if not isinstance(name, str) or hasattr(OrderedDict, name):
                    raise WeightsError("the pickle gives a dict an attribute that hides one of its own")
                setattr(thing, name, value)
        else:
            raise WeightsError("the pickle changes an object that has no state")

    def persistent_id(self) -> None:
        if self._persistent is None:
            raise WeightsError("the pickle refers to what lies beside it, where nothing does")
        self.stack.append(self._persistent(self.stack.pop()))

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (list, Unknown):
            raise WeightsError("the pickle appends to what is no list")
        self.take_room(len(items) * (8 if type(target) is list else DICT_ITEM))
        (target.extend if type(target) is list else target.update)(items)

    def add(self) -> None:
        items, target = self.since_mark(), self.stack[-1]
        if type(target) not in (set, Unknown):
            raise WeightsError("the pickle adds to what is no set")
        self.take_room(len(items) * SET_ITEM)
        target.update(map(checked_key, items))

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter, Unknown) or len(items) % 2 != 0:
            raise WeightsError("the pickle sets items of what is no dict")
        self.take_room(len(items) // 2 * DICT_ITEM)
        if type(target) is Unknown:
            return target.set_items(zip(items[::2], items[1::2], strict=True))
        for i in range(0, len(items), 2):
            target[checked_key(items[i])] = items[i + 1]

    def contain(self, made: Any) -> None:
        self.take_room(sys.getsizeof(made) + (0 if type(made) in _BARE else OBJECT))
        self.stack.append(made)

    def take_room(self, nbytes: int) -> None:
        self._room_left -= nbytes
        if self._room_left < 0:
            raise WeightsError(f"a pickle of {len(self.data)} bytes whose lists, dicts, tuples and sets take over "
                               f"{ROOM_OF_A_BYTE} times as many is not accepted")

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise WeightsError("the pickle takes more than there is")
        made = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.contain(made)


def checked_key(key: Any) -> Any:
    """A key whose hash is cheap and cannot be forced to collide."""
    is_tuple = type(key) is tuple and len(key) <= 64
    for each in key if is_tuple else (key,):
        if not isinstance(each, (str, int, float, bytes, Made, Unknown, type(None))):
            raise WeightsError(f"the pickle has a key of type {type(each).__name__}: text or a number is expected")
        if isinstance(each, int) and abs(each) >= KEY_INTEGER_MAX:
            raise WeightsError("the pickle has a key of over 2^60")
        if is_tuple and isinstance(each, (int, float)) and not each >= 0:  # -1 and -2 have one hash, tuples 2^n.
            raise WeightsError("the pickle has a key with a number below 0 in a tuple")
    return key


def key_set(items: Iterable[Any] = ()) -> set[Any]:
    return set(map(checked_key, items))


def ordered_dict(pairs: Iterable[Any] = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(key), value) for key, value in pairs)


def counter(counts: Any = ()) -> Counter[Any]:
    if type(counts) is not dict and counts != ():
        raise WeightsError("the pickle counts what is no dict")
    made: Counter[Any] = Counter()
    made.update(counts)
    return made


def encoded(text: str, encoding: str = "latin1") -> bytes:
    """How older protocols write bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise WeightsError("the pickle encodes what is not written as bytes are")
    return text.encode("latin1")


def plain_bytes(kind: type) -> Callable[..., Any]:
    def make(content: bytes = b"") -> Any:
        if not isinstance(content, bytes):  # A number would ask for so many bytes.
            raise WeightsError("the pickle makes bytes of what are none")
        return kind(content)
    return make


def _complex(real: float, imaginary: float) -> complex:
    return complex(float(real), float(imaginary))


def _frozen(items: Iterable[Any] = ()) -> frozenset[Any]:
    return frozenset(key_set(items))


_BUILTINS: dict[str, Callable[..., Any]] = {
    "set": key_set, "frozenset": _frozen, "bytearray": plain_bytes(bytearray), "bytes": plain_bytes(bytes),
    "complex": _complex, "slice": slice,
}

PLAIN: dict[str, Any] = {
    "collections.OrderedDict": Stand(ordered_dict),
    "collections.Counter": Stand(counter),
    "_codecs.encode": Stand(encoded),
    **{f"{module}.{name}": Stand(function) for module in ("builtins", "__builtin__")
       for name, function in _BUILTINS.items()},
}


def _pusher(make: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(make(machine))


_STOP = ord(".")
_STEPS: dict[int, Callable[[_Machine], None]] = {
    0x80: lambda machine: machine.skip(1),
    0x95: lambda machine: machine.skip(8),
    ord("N"): lambda machine: machine.stack.append(None),
    0x88: lambda machine: machine.stack.append(True),
    0x89: lambda machine: machine.stack.append(False),
    ord("J"): _pusher(lambda machine: int.from_bytes(machine.take(4), "little", signed=True)),
    ord("K"): _pusher(lambda machine: machine.byte()),
    ord("M"): _pusher(lambda machine: machine.number(2)),
    0x8a: _pusher(lambda machine: int.from_bytes(machine.take(machine.byte()), "little", signed=True)),
    ord("G"): _pusher(lambda machine: struct.unpack(">d", machine.take(8))[0]),
    ord("U"): _pusher(lambda machine: machine.take(machine.byte()).decode()),  # Text of Python 2.
    ord("X"): _pusher(lambda machine: machine.text(machine.number(4))),
    0x8c: _pusher(lambda machine: machine.text(machine.byte())),
    0x8d: _pusher(lambda machine: machine.text(machine.number(8))),
    ord("B"): _pusher(lambda machine: machine.take(machine.number(4))),
    ord("C"): _pusher(lambda machine: machine.take(machine.byte())),
    0x8e: _pusher(lambda machine: machine.take(machine.number(8))),
    0x96: _pusher(lambda machine: bytearray(machine.take(machine.number(8)))),
    ord(")"): lambda machine: machine.stack.append(()),
    ord("t"): lambda machine: machine.contain(tuple(machine.since_mark())),
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    ord("]"): lambda machine: machine.contain([]),
    ord("a"): lambda machine: machine.append([machine.stack.pop()]),
    ord("e"): lambda machine: machine.append(machine.since_mark()),
    ord("}"): lambda machine: machine.contain({}),
    ord("s"): lambda machine: machine.set_items([machine.stack.pop(), machine.stack.pop()][::-1]),
    ord("u"): lambda machine: machine.set_items(machine.since_mark()),
    0x8f: lambda machine: machine.contain(set()),
    0x90: _Machine.add,
    0x91: lambda machine: machine.contain(_frozen(machine.since_mark())),
    ord("("): _Machine.mark,
    ord("0"): _Machine.drop,
    ord("1"): _Machine.drop_since_mark,
    ord("2"): lambda machine: machine.stack.append(machine.stack[-1]),
    ord("q"): lambda machine: machine.put(machine.byte(), 2),
    ord("r"): lambda machine: machine.put(machine.number(4), 5),
    0x94: _Machine.memoize,
    ord("h"): lambda machine: machine.get(machine.byte()),
    ord("j"): lambda machine: machine.get(machine.number(4)),
    ord("c"): _Machine.global_line,
    0x93: _Machine.global_of_stack,
    ord("R"): _Machine.reduce,
    0x81: _Machine.new,
    0x92: _Machine.new_with_keywords,
    ord("b"): _Machine.build,
    ord("Q"): _Machine.persistent_id,
}
