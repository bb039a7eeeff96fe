# SPDX-License-Identifier: Apache-2.0

"""What stands in place of the functions, classes and objects that a pickle names. None of it runs anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.weights.tensors import WeightsError


class UnknownGlobal(WeightsError):
    """The pickle wants something that is not in the table."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the pickle asks for {name}, which is no plain data")
        self.name = name


class Stand:
    """In place of a function or class that a pickle calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class Kind:
    """In place of a class of which a pickle makes objects without calling it."""

    def __init__(self, name: str) -> None:
        self.name = name


class Made:
    """An object of a Kind, with the state that the pickle gives it."""

    __slots__ = ("kind", "state")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.state: Any = None

    def field(self, name: str) -> Any:
        if not isinstance(self.state, dict) or name not in self.state:
            raise WeightsError(f"{self.kind.name} lacks the field {name!r}")
        return self.state[name]


class Unknown:
    """A class or function that is not known, or an object that it would have made: neither is imported, called or made.

    `name` is what the pickle calls it, as "argparse.Namespace". What the pickle gives it is kept beside it, since
    tensors may be among that.
    """

    __slots__ = ("_arguments", "_items", "_state", "name")

    def __init__(self, name: str, arguments: tuple[Any, ...] = ()) -> None:
        self.name = name
        self._arguments = arguments
        self._state: Any = None
        self._items: list[tuple[Any, Any]] | None = None  # Most have none, and a pickle may have very many objects.

    def made_of(self, arguments: tuple[Any, ...]) -> Unknown:
        """What calling it would give."""
        return Unknown(self.name, arguments)

    def build(self, state: Any) -> None:
        if self._state is not None:
            raise WeightsError("the pickle gives an object its state twice")
        self._state = state

    def update(self, values: Iterable[Any]) -> None:
        """As a list or set of a class of its own does."""
        self.set_items(enumerate(values, len(self._items or ())))

    def set_items(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._items = [] if self._items is None else self._items
        self._items.extend(pairs)

    def parts(self) -> Iterator[tuple[str, Any]]:
        """What the pickle gives it, by names: attributes and items by their own, arguments by their numbers."""
        state = self._state
        for attributes in state if isinstance(state, tuple) and len(state) == 2 else (state,):
            if isinstance(attributes, dict):
                yield from ((str(key), value) for key, value in attributes.items())
            elif attributes is not None:
                yield "state", attributes
        yield from ((str(key), value) for key, value in self._items or ())
        yield from ((f"arguments.{number}", value) for number, value in enumerate(self._arguments))

    def __repr__(self) -> str:
        return f"<{self.name}, not made>"
