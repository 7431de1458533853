"""The table of broker states."""

import pytest
from headrace.controller.state.broker_states import TRANSITIONS, BrokerEvent, BrokerState, next_state


def test_only_the_transitions_of_the_table_are_allowed() -> None:
    """All pairs of state and event."""
    for state in BrokerState:
        for event in BrokerEvent:
            if event in TRANSITIONS[state]:
                assert next_state(state, event) is TRANSITIONS[state][event]
            else:
                with pytest.raises(AssertionError):
                    next_state(state, event)
