"""Which server belongs to which machine: each is tied to a Ray resource that only its disk's machine has.

Never to a Ray node id, which is another after each start of a machine. A tie is decided once, when the server
is new, and written into the cluster file: machines that are away for a while must not shift the others to
disks that are not theirs. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

PIN_SHARE = 0.001  # of a machine's own resource: places an actor without taking room


def pins_of(
    indices: Mapping[str, int],
    known: Mapping[str, str],
    machines: Sequence[str],
    disk_resource: str | None,
) -> dict[str, str]:
    """The resource of each server by its name; `known` ones stay what they are.

    `indices` gives the number of each server, 0 for the first controller; a further controller goes with the
    node of its number. `machines` are addresses. Without a resource of one's own it is the machine's
    `node:<ip>`, which outlives a restart of its raylet. One machine is named too: another may join, and must
    not get a restarted server.
    """
    return {
        name: known.get(name) or _new_pin(index, machines, disk_resource) for name, index in indices.items()
    }


def without_machine(pins: Mapping[str, str], resources: Collection[str]) -> dict[str, str]:
    """Those of `pins` that no machine of the Ray has now; `resources` are the names of all that it has."""
    return {name: pin for name, pin in pins.items() if pin not in resources}


def check_new(pins: Mapping[str, str], known: Collection[str], resources: Collection[str]) -> None:
    """Errors: ConfigError for a server that never was, and cannot begin: nobody has its disk. One that was
    waits for its machine instead."""
    for name, pin in without_machine(pins, resources).items():
        if name not in known:
            raise ConfigError(
                f"{name} needs a machine with the Ray resource {pin}, and there is none:"
                f""" start Ray there with --resources='{{"{pin}": 1}}'"""
            )


def _new_pin(index: int, machines: Sequence[str], disk_resource: str | None) -> str:
    if disk_resource:
        return f"{disk_resource}-{index}"
    return f"node:{machines[max(0, index - 1) % len(machines)]}"
