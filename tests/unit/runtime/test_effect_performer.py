"""The table of a performer covers the union of effects, and each effect reaches its function in order."""

from dataclasses import dataclass

import pytest
from headrace.runtime.effect_performer import EffectPerformer, ignore, on


@dataclass(frozen=True, slots=True)
class Send:
    body: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    deadline_ms: int


Effect = Send | SetTimer


def test_effects_are_performed_in_order() -> None:
    """Both entry points use the same table."""
    performed: list[str] = []
    performer = EffectPerformer(
        Effect,
        on(Send, lambda send: performed.append(send.body)),
        on(SetTimer, lambda timer: performed.append(f"timer {timer.deadline_ms}")),
    )
    performer.perform_all([Send("a"), SetTimer(5), Send("b")])
    performer.perform(SetTimer(6))
    assert performed == ["a", "timer 5", "b", "timer 6"]


def test_union_of_one_type_needs_one_entry() -> None:
    """A core with a single effect has no union: typing gives the class itself."""
    EffectPerformer(Send, on(Send, ignore)).perform(Send("dropped"))


def test_missing_unknown_and_repeated_entries_are_refused() -> None:
    """The error names the types and comes when the performer is made."""
    with pytest.raises(TypeError, match="SetTimer"):
        EffectPerformer(Effect, on(Send, ignore))
    with pytest.raises(TypeError, match="int"):
        EffectPerformer(Effect, on(Send, ignore), on(SetTimer, ignore), on(int, ignore))
    with pytest.raises(TypeError, match="Send"):
        EffectPerformer(Effect, on(Send, ignore), on(SetTimer, ignore), on(Send, ignore))


def test_effect_outside_the_union_is_an_error() -> None:
    performer = EffectPerformer(Effect, on(Send, ignore), on(SetTimer, ignore))
    with pytest.raises(KeyError):
        performer.perform("neither")
