"""The roles of each principal, kept as memberships change. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .acls import WILDCARD_PRINCIPAL
from .roles import role

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView

Membership = tuple[str, str]  # name of the role, principal of the member


class RoleIndex:
    """Invariant: `_owners` has the members of some role, and no others."""

    def __init__(self, memberships: Iterable[Membership] = ()) -> None:
        self._memberships: dict[Membership, None] = {}
        self._owners: dict[str, tuple[str, ...]] = {}
        self.change(memberships, ())

    def keys(self) -> KeysView[Membership]:
        """The memberships as a set."""
        return self._memberships.keys()

    def change(self, added: Iterable[Membership], removed: Iterable[Membership]) -> None:
        """Remove memberships and add memberships."""
        roles: dict[str, set[str]] = {}  # of the members that change

        def roles_of(member: str) -> set[str]:
            if member not in roles:
                roles[member] = set(self._owners.get(member, ())[2:])
            return roles[member]

        for each in removed:
            if each in self._memberships:
                del self._memberships[each]
                roles_of(each[1]).discard(str(role(each[0])))
        for each in added:
            self._memberships[each] = None
            roles_of(each[1]).add(str(role(each[0])))
        for member, names in roles.items():
            if names:
                self._owners[member] = (member, WILDCARD_PRINCIPAL, *sorted(names))
            else:
                self._owners.pop(member, None)

    def owners_of(self, principal: str) -> tuple[str, ...]:
        """The principals whose rules count for a connection of this one: itself, all users, its roles."""
        return self._owners.get(principal) or tuple(dict.fromkeys((principal, WILDCARD_PRINCIPAL)))
