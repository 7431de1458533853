"""A Ray of one machine, for the programs of this folder."""

import contextlib

import ray

STARTS = 8


@contextlib.contextmanager
def own_ray(cpus: int):
    """Ray gives its own processes 30 s to start, too few on a busy machine: it is started again then."""
    for start in range(1, STARTS + 1):
        try:
            ray.init(
                num_cpus=cpus, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20
            )
            break
        except Exception as error:
            if "timed out during startup" not in str(error) or start == STARTS:
                raise
            ray.shutdown()
    try:
        yield
    finally:
        ray.shutdown()
