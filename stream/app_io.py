"""An application: its topology, its configuration, and how it is run."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError
from .config import StreamsConfig, split_config
from .dsl.builder import Builder, extractor_of
from .garbage_io import rare_collections
from .state.files_io import open_engine
from .task.handlers import LogAndFail, RetryOrFail
from .task.settings import TaskSettings
from .task.timestamps import FailOnInvalidTimestamp
from .worker.instance_io import AppInstance
from .worker.state_directory_io import StateDirectory, default_state_dir
from .worker.states import InstanceState
from .worker.uncaught import UncaughtHandler, shut_down

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .query.client_io import Queries
    from .state.suppliers import Supplier
    from .task.handlers import DeserializationHandler, ProcessingHandler, ProductionHandler
    from .worker.listeners_io import RestoreListener, StateListener

log = logging.getLogger("headrace.stream")

_OF_THE_TOPOLOGY = ("application_id", "optimization", "default_store", "store_format", "explicit_names")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class App(Builder):
    """A builder with the id and the configuration of its application.

    `application_id` is the group id and the prefix of internal topics. `key`, `value` and `timestamp` serve
    where an operator names none. `config` has keys of StreamsConfig, and of the clients with a prefix
    ("producer.linger.ms"); keyword arguments are keys of StreamsConfig (`guarantee="exactly_once_v2"`,
    `threads=4`, `commit_interval_ms=100`). The handlers decide on records that fail. `store_supplier` makes
    the stores of operators that describe none of their own, see `BytesStore`. Errors: ConfigError.
    """

    def __init__(
        self,
        application_id: str,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
        on_deserialization_error: DeserializationHandler | None = None,
        on_processing_error: ProcessingHandler | None = None,
        on_production_error: ProductionHandler | None = None,
        store_supplier: Supplier | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        own, self.client_configs = split_config(config or {})
        self.config = StreamsConfig.of({**own, "application.id": application_id}, **options)
        super().__init__(
            optimization=self.config.optimization,
            persistent=self.config.default_store == "rocksDB",
            store_headers=self.config.stores_have_headers,
            store_supplier=store_supplier,
            require_names=self.config.explicit_names,
        )
        self._serdes = key, value
        self._timestamp = extractor_of(timestamp) or FailOnInvalidTimestamp()
        self._handlers = on_deserialization_error, on_processing_error, on_production_error
        self.settings = self._settings(self.config)

    def _settings(self, config: StreamsConfig) -> TaskSettings:
        dead_letters = config.dead_letter_topic or None
        on_deserialization_error, on_processing_error, on_production_error = self._handlers
        return TaskSettings(
            key_serde=self._serdes[0],
            value_serde=self._serdes[1],
            timestamp_extractor=self._timestamp,
            deserialization_handler=on_deserialization_error or LogAndFail(dead_letters),
            processing_handler=on_processing_error or LogAndFail(dead_letters),
            production_handler=on_production_error or RetryOrFail(dead_letters),
            handles_global_failures=config.processing_handler_global,
            max_task_idle_ms=config.max_task_idle_ms,
            buffered_records=config.buffered_records,
        )

    @property
    def application_id(self) -> str:
        """The id of the application."""
        return self.config.application_id

    def instance(
        self,
        bootstrap: Any = None,
        *,
        threads: int | None = None,
        config: Mapping[str, Any] | None = None,
        on_uncaught: UncaughtHandler = shut_down,
        on_state_change: StateListener | None = None,
        on_restore: RestoreListener | None = None,
    ) -> AppInstance:
        """An instance that is not started: `start` it, or use it in a `with` statement.

        `bootstrap` as for `Producer`. `config` overrides that of the application, but for the keys that shape
        its topology. `on_uncaught` decides what an error that ends a thread means. `on_state_change` is
        called with the new and the old InstanceState, and must not wait; `on_restore` is called while stores
        are restored. Errors: ConfigError.
        """
        own, clients = split_config(config or {})
        late = [name for name in own if StreamsConfig.field_of(name) in _OF_THE_TOPOLOGY]
        if late:
            raise ConfigError(f"{late[0]} shapes the topology: give it to App, which builds it")
        if threads is not None:
            own["num.stream.threads"] = threads
        client_configs = {name: {**given, **clients[name]} for name, given in self.client_configs.items()}
        merged = self.config.merged(own)
        return AppInstance(
            self.topology(),
            merged,
            self._settings(merged),
            bootstrap=bootstrap,
            client_configs=client_configs,
            open_engine=partial(open_engine, has_statistics=merged.metrics_level != "INFO"),
            on_uncaught=on_uncaught,
            on_state_change=on_state_change,
            on_restore=on_restore,
        )

    def queries(
        self,
        bootstrap: Any = None,
        *,
        timeout_s: float = 10.0,
        config: Mapping[str, Any] | None = None,
    ) -> Queries:
        """A handle for queries about all instances of the application, wherever they run: with the serdes of
        this program, and `application.server` set for each instance. `bootstrap` as for `Producer`; `config`
        overrides that of the application, such as `query.secret.file` and `admin.` keys. Close it, or use it
        in a `with` statement."""
        from ..clients.sync.admin_io import Admin
        from .query.connect_io import queries_of
        from .query.hosts_io import GroupHosts
        from .query.secrets_io import query_keys

        own, clients = split_config(config or {})
        name = self.application_id
        keys = query_keys(self.config.merged(own), name)
        admin = Admin(bootstrap, config={**self.client_configs["admin"], **clients["admin"]})
        built = self.build(name)
        return queries_of(name, built, self.settings, GroupHosts(name, admin), timeout_s=timeout_s, keys=keys)

    def run(
        self,
        bootstrap: Any = None,
        *,
        threads: int | None = None,
        config: Mapping[str, Any] | None = None,
        on_uncaught: UncaughtHandler = shut_down,
        on_state_change: StateListener | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        """Run in this process until SIGTERM or SIGINT; then commit, close the stores and return.

        Arguments as of `instance`. Errors: the one that ended the instance; InternalTopicError and
        StateDirectoryError at the start.
        """
        instance = self.instance(
            bootstrap,
            threads=threads,
            config=config,
            on_uncaught=on_uncaught,
            on_state_change=on_state_change,
            on_restore=on_restore,
        )
        with _stop_at_signals() as stopping, rare_collections(), instance:
            while not stopping.is_set() and not instance.wait_for(
                InstanceState.ERROR, InstanceState.NOT_RUNNING, timeout_s=0.2
            ):
                pass
        instance.wait()

    def clean_up(self) -> None:
        """Delete the stores of this application on this machine. They are restored from their changelogs.

        Errors: StateDirectoryError while an instance runs.
        """
        folder = Path(self.config.state_dir or default_state_dir(), self.application_id)
        if not folder.exists():
            return
        with StateDirectory(self.config.state_dir, self.application_id):
            shutil.rmtree(folder)


@contextmanager
def _stop_at_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set. Only the main thread of a process gets signals."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in _SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
