"""The transitions between roles."""

import pytest
from headrace.controller.quorum.roles import TRANSITIONS, Role, RoleEvent, next_role


def test_next_role_follows_the_table() -> None:
    """Every role can be reached; a transition that is not in the table asserts."""
    reached = {target for targets in TRANSITIONS.values() for target in targets.values()}
    assert reached == set(Role)
    for role in Role:
        for event in RoleEvent:
            if event in TRANSITIONS[role]:
                assert next_role(role, event) is TRANSITIONS[role][event]
            else:
                with pytest.raises(AssertionError):
                    next_role(role, event)
