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
        for each in removed:
            if each in self._memberships:
                del self._memberships[each]
                left = [owner for owner in self._owners[each[1]] if owner != str(role(each[0]))]
                self._keep(each[1], left)
        for each in added:
            if each not in self._memberships:
                self._memberships[each] = None
                self._keep(each[1], [*self.owners_of(each[1]), str(role(each[0]))])

    def owners_of(self, principal: str) -> tuple[str, ...]:
        """The principals whose rules count for a connection of this one: itself, all users, its roles."""
        return self._owners.get(principal) or tuple(dict.fromkeys((principal, WILDCARD_PRINCIPAL)))

    def _keep(self, member: str, owners: list[str]) -> None:
        own, everyone, *roles = owners
        if roles:
            self._owners[member] = (own, everyone, *sorted(roles))
        else:
            del self._owners[member]
