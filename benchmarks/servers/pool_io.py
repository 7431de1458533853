"""The servers of both systems: started for the groups that need them, stopped when others are needed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..constants import CURVE, KAFKA, NODES
from ..group import Servers
from ..machine_io import set_affinity
from .headrace_io import Headrace, HeadraceCluster, kafka_listener
from .kafka_systems_io import Kafka, KafkaCluster
from .secured_io import CurveKeys, TlsListeners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..harness import System
    from .children_io import Children

DEFAULT = Servers(1)


class ServerPool:
    """The servers with default settings last as long as the pool; others until the next `use`."""

    def __init__(
        self,
        children: Children,
        scratch: Path,
        cores: list[int],
        say: Callable[[str], None],
        profile: str = "",
    ) -> None:
        self._children, self._scratch, self._cores, self._say = children, scratch, cores, say
        self._profile = f"{profile}.node" if profile else ""
        self.servers = DEFAULT
        self._systems: defaultdict[Servers, dict[str, System]] = defaultdict(dict)

    @property
    def systems(self) -> dict[str, System]:
        """The servers in use, by name."""
        return self._systems[self.servers]

    def start(self, names: Iterable[str], folder: Path | None = None) -> None:
        """Start the systems `names` with the settings in use, data in `folder` or the scratch folder."""
        for name in sorted(names):
            started = time.monotonic()
            self.systems[name] = self._new(name, folder or self._scratch)
            nodes = "three nodes" if self.servers.nodes == NODES else "one node"
            self._say(f"{name}: {nodes} started after {time.monotonic() - started:.1f} s")

    def use(self, servers: Servers, names: Iterable[str]) -> bool:
        """Use servers with these settings; whether new ones were started, which then need a warm-up."""
        if servers == self.servers:
            missing = set() if servers.is_lasting else set(names) - self.systems.keys()
            self.start(missing, Path(tempfile.mkdtemp(prefix="servers-", dir=self._scratch)))
            return bool(missing)
        if not self.servers.is_lasting:
            for system in self.systems.values():
                system.stop()
            self.systems.clear()
        self.servers = servers
        if servers.is_lasting:
            return False
        self.start(names, Path(tempfile.mkdtemp(prefix="servers-", dir=self._scratch)))
        return True

    @contextlib.contextmanager
    def extra(self, name: str) -> Iterator[System]:
        """One more instance of a system with the settings in use; stopped and deleted at the end."""
        folder = Path(tempfile.mkdtemp(prefix="extra-", dir=self._scratch))
        try:
            system = self._new(name, folder)
            try:
                yield system
            finally:
                system.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def pin(self, cores: list[int] | None = None) -> None:
        """Let the nodes in use run on `cores`, by default those of the pool."""
        for system in self.systems.values():
            for pid in system.node_pids:
                set_affinity(pid, set(cores or self._cores))

    @property
    def all_systems(self) -> list[System]:
        """Of all settings that were used."""
        return [system for systems in self._systems.values() for system in systems.values()]

    def _new(self, name: str, folder: Path) -> System:
        settings, is_cluster = dict(self.servers.settings), self.servers.nodes == NODES
        folder, security = _secured(folder, name, has_tls=self.servers.has_tls)
        if name == KAFKA:
            settings |= dict(self.servers.kafka_settings)
            if is_cluster:
                return KafkaCluster(folder, self._cores)
            return Kafka(folder, self._cores, settings, security)
        common = self._children, folder, self._cores, self._profile
        if is_cluster:
            return HeadraceCluster(*common, has_listener=True)
        return Headrace(
            *common, settings | kafka_listener(), CurveKeys(folder) if name == CURVE else security
        )


def _secured(folder: Path, name: str, *, has_tls: bool) -> tuple[Path, TlsListeners | None]:
    """The folder of a system, its own if it has files of security, and its listeners with TLS."""
    if has_tls or name == CURVE:
        folder = Path(tempfile.mkdtemp(prefix="secured-", dir=folder))
    return folder, TlsListeners(folder) if has_tls else None
