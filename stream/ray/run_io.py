"""`stream.run`: an application on Ray workers."""

from __future__ import annotations

import os
import secrets
import uuid
from typing import TYPE_CHECKING, Any

from ...clients.cluster.attach_io import security_protocol
from ...clients.config import AdminConfig
from ...clients.security_config import PLAINTEXT
from ...protocol.errors import ConfigError
from ..config import split_config
from ..errors import WorkersError
from ..query.security_config import NONE
from ..targets_io import app_of
from .addresses_io import CLUSTER_VARIABLE, addresses
from .config import WorkersConfig
from .plan import supervisors_in
from .program_io import Program
from .run import Run
from .runtime_env_io import uploaded
from .session_io import connected_ray
from .workers_io import Workers, actor_names, found_workers, new_workers, remove

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..app_io import App
    from ..config import StreamsConfig
    from ..worker.uncaught import UncaughtHandler


def run(
    app: App | str,
    bootstrap: str | Iterable[str] | None = None,
    *,
    workers: int | None = None,
    autoscale: tuple[int, int] | None = None,
    threads: int | None = None,
    resources: Mapping[str, float] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    on_uncaught: UncaughtHandler | None = None,
    ray_address: str | None = None,
    **options: Any,
) -> Workers:
    """Run an application on Ray workers; returns when they are being started.

    `app` is an application, or "module:app", which each worker imports; an application is sent pickled, with
    lambdas and functions of the main script. `bootstrap` as for `Producer`. `workers` are processes with one
    instance each, of `threads` threads. `autoscale` are bounds of their number, which then follows the lag.
    `resources` are custom Ray resources of each worker; `cpus`, `memory_bytes`, `gpus` and other keys of the
    workers (docs/CONFIG.md) are keyword arguments, or in `config` beside keys that override those of the
    application, as for `App.instance`. `runtime_env` is Ray's, for machines without the program; a
    local `working_dir` is uploaded.

    Ray: that of this process, else `ray_address`, RAY_ADDRESS, or the one of the cluster. An application that
    runs already is found by its id, and scaled to `workers` if given.

    Errors: ConfigError, also if the running one has other options; WorkersError; NoClusterError.
    """
    of_workers, of_app = _split(config or {})
    if autoscale is not None:
        options["autoscale_min"], options["autoscale_max"] = autoscale
    if workers is not None:
        options["workers"] = workers
    settings = WorkersConfig.of(of_workers, **options)
    program = Program.of(app, on_uncaught)
    made = app_of(app, program.folders) if isinstance(app, str) else app
    merged = made.instance(bootstrap, threads=threads, config=of_app).config
    connected_ray(ray_address)
    explicit, known = addresses(bootstrap)
    wanted = Run(
        application_id=made.application_id,
        run_id=uuid.uuid4().hex[:12],
        program=program,
        config=settings,
        bootstrap=explicit,
        known=known,
        cluster=os.environ.get(CLUSTER_VARIABLE),
        threads=threads,
        app_config=of_app,
        resources=dict(resources or {}),
        runtime_env=uploaded(runtime_env),
        sources=tuple(made.build(made.application_id).source_topics()),
        commit_every_ms=merged.commit_every_ms,
        query_secret=_query_secret(
            merged, bootstrap, {**made.client_configs["admin"], **split_config(of_app)[1]["admin"]}
        ),
    )
    if made.application_id not in supervisors_in(actor_names()):
        remove(made.application_id)  # workers whose supervisor was killed
        return new_workers(wanted)
    found = found_workers(made.application_id)
    return _adopted(found, wanted, workers)


def connect_workers(application_id: str, *, ray_address: str | None = None) -> Workers:
    """The handle of an application that runs on Ray; see `run` for which Ray. Errors: WorkersError."""
    connected_ray(ray_address)
    return found_workers(application_id)


def _adopted(found: Workers, wanted: Run, workers: int | None) -> Workers:
    """A running application, with the wanted number of workers; a new one if it has ended."""
    status = found.status()
    if status["state"] != "RUNNING":
        if status["state"] == "STOPPING":
            raise WorkersError(f"application {wanted.application_id!r} is being stopped")
        remove(wanted.application_id)
        return new_workers(wanted)
    differs = found.run().other_than(wanted)
    if differs is not None:
        raise ConfigError(
            f"application {wanted.application_id!r} runs on this Ray with another {differs}: stop it first,"
            f" with `headrace stream stop {wanted.application_id}`"
        )
    if workers is not None:
        found.scale(workers)
    return found


def _query_secret(config: StreamsConfig, bootstrap: Any, admin: Mapping[str, Any]) -> str:
    """A new secret, if the clients have a security protocol and the application has no secret of its own."""
    if config.query_security == NONE or config.has_query_secret:
        return ""
    protocol = security_protocol(bootstrap, AdminConfig, admin)
    return secrets.token_hex(32) if config.query_security or protocol != PLAINTEXT else ""


def _split(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys of the workers, and those of the application and its clients."""
    keys = list(WorkersConfig.keys())
    known = {*keys, *(name.replace(".", "_") for name in keys), *map(WorkersConfig.field_of, keys)}
    own, _ = split_config(config)
    mine = known.intersection(own)
    return {n: config[n] for n in mine}, {n: value for n, value in config.items() if n not in mine}
