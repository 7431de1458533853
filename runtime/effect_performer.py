"""Dispatch of a core's effects: one table from the type of an effect to the function that performs it.

Shells, the simulator and test rigs dispatch in this one way. A table that does not cover exactly the members
of the core's `Effect` union raises TypeError when the performer is made, not when the effect first comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Entry = tuple[type, Callable[[Any], object]]

E = TypeVar("E")


def on(effect_type: type[E], perform: Callable[[E], object]) -> Entry:
    """An entry of the table; mypy checks that `perform` takes this type of effect."""
    return effect_type, perform


def ignore(_effect: object) -> None:
    """Performs nothing, for effects that a shell has no use for."""


class EffectPerformer:
    """Performs the effects of one core; what a function returns is dropped."""

    def __init__(self, effect_union: Any, *entries: Entry) -> None:
        expected = get_args(effect_union) or (effect_union,)
        types = [effect_type for effect_type, _ in entries]
        if len(types) != len(expected) or set(types) != set(expected):
            wrong = {*types} ^ {*expected} or {each for each in types if types.count(each) > 1}
            names = ", ".join(sorted(each.__name__ for each in wrong))
            raise TypeError(f"each effect needs exactly one function; missing, unknown or repeated: {names}")
        self._table = dict(entries)

    def perform(self, effect: object) -> None:
        """Errors: KeyError for a type outside the union, and whatever the function raises."""
        self._table[type(effect)](effect)

    def perform_all(self, effects: Iterable[object]) -> None:
        """Perform the effects in their order."""
        table = self._table
        for effect in effects:
            table[type(effect)](effect)
