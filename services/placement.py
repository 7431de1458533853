"""Placement of servers: each is tied to a Ray resource that only the machine of its disk has. Pure.

Never to a Ray node id, which changes with each start of a machine. The tie is chosen once, for a new server,
and stored in the cluster file: while machines are down, the other servers must not move to disks of other
servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

PIN_SHARE = 0.001  # of the machine's own resource: ties an actor without limiting the number of actors


def pins_of(
    indices: Mapping[str, int],
    known: Mapping[str, str],
    machines: Sequence[str],
    disk_resource: str | None,
) -> dict[str, str]:
    """The resource of each server by name; those in `known` are kept.

    `indices` gives the number of each server, 0 for the first controller; a further controller is placed with
    the node of its number. `machines` are addresses. Without a `disk_resource` it is the machine's
    `node:<ip>`, which survives a restart of its raylet. A single machine gets one too: another machine may
    join, and must not get a restarted server.
    """
    return {
        name: known.get(name) or _new_pin(index, machines, disk_resource) for name, index in indices.items()
    }


def without_machine(pins: Mapping[str, str], resources: Collection[str]) -> dict[str, str]:
    """The entries of `pins` without a machine at present; `resources` are the names of all resources of the
    Ray."""
    return {name: pin for name, pin in pins.items() if pin not in resources}


def check_new(pins: Mapping[str, str], known: Collection[str], resources: Collection[str]) -> None:
    """Errors: ConfigError for a new server whose resource no machine has. An existing server waits for its
    machine instead."""
    for name, pin in without_machine(pins, resources).items():
        if name not in known:
            raise ConfigError(
                f"{name} needs a machine with the Ray resource {pin}, which no machine has:"
                f""" start Ray there with --resources='{{"{pin}": 1}}'"""
            )


def _new_pin(index: int, machines: Sequence[str], disk_resource: str | None) -> str:
    if disk_resource:
        return f"{disk_resource}-{index}"
    return f"node:{machines[max(0, index - 1) % len(machines)]}"
