"""Programs of torch_rig.py, each a process with torch. `loader BOOTSTRAP TOPIC` prints the rows of a
DataLoader; `train BOOTSTRAP TOPIC FOLDER ROWS` runs Ray Train with two workers, one of which is killed."""

import json
import os
import signal
import sys
import tempfile
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from headrace import ray_data
from torch.utils.data import DataLoader

BATCH = 10
EPOCHS = 2


def numbers(batch: dict[str, Any]) -> list[int]:
    """The numbers in the values, four digits each."""
    digits = batch["value"].long() - ord("0")
    found: list[int] = (digits * torch.tensor([1000, 100, 10, 1])).sum(dim=1).tolist()
    return found


def loaded(bootstrap: str, topic: str) -> dict[str, Any]:
    """Two epochs by two persistent workers, and one in this process that is interrupted and resumed."""
    shards = ray_data.sharded(topic, bootstrap_servers=bootstrap)

    def iterator() -> ray_data.ShardIterator:
        return ray_data.ShardIterator(
            shards, rank=0, world_size=1, batch_size=BATCH, batch_format="torch", columns=["value", "offset"]
        )

    list(iterator())  # so that there is a connection when the workers are forked
    loader = DataLoader(
        ray_data.TorchDataset(iterator()), batch_size=None, num_workers=2, persistent_workers=True
    )
    epochs = [[numbers(batch) for batch in loader] for _ in range(EPOCHS)]
    first = ray_data.TorchDataset(iterator())
    parts = [numbers(batch) for batch in islice(DataLoader(first, batch_size=None), 3)]
    second = ray_data.TorchDataset(iterator())
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    parts += [numbers(batch) for batch in DataLoader(second, batch_size=None)]
    return {"epochs": epochs, "resumed": parts}


def loop(config: dict[str, Any]) -> None:
    """Count every row; write a checkpoint with counts and position at every third batch. Worker 1 of the
    first attempt exits a few batches after a checkpoint."""
    import ray.train
    import torch.distributed

    rank = ray.train.get_context().get_world_rank()
    iterator = ray_data.ShardIterator(
        config["shards"], batch_size=BATCH, batch_format="torch", columns=["value", "offset"]
    )
    seen = torch.zeros(config["rows"], dtype=torch.int64)
    before = ray.train.get_checkpoint()
    if before is not None:
        with before.as_directory() as folder:
            kept = torch.load(Path(folder, f"rank-{rank}.pt"))
        seen = kept["seen"]
        iterator.load_state_dict(kept["shard"])
    known = Path(config["folder"], "training", "checkpoint_manager_snapshot.json")  # Ray Train's own
    done = 0
    while iterator.epoch < EPOCHS:
        for batch in iterator:
            seen.index_add_(
                0, torch.tensor(numbers(batch)), torch.ones(len(batch["offset"]), dtype=seen.dtype)
            )
            done += 1
            if done % 3 == 0:
                with tempfile.TemporaryDirectory() as folder:
                    torch.save(
                        {"seen": seen, "shard": iterator.state_dict()}, Path(folder, f"rank-{rank}.pt")
                    )
                    ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder))
            elif before is None and rank == 1 and done == 7:
                # otherwise the next attempt would start without a checkpoint and exit too
                while not known.exists():
                    threading.Event().wait(0.05)
                os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.all_reduce(seen)
    if rank == 0:
        result = {"seen": seen.tolist(), "resumed": before is not None, "batches": done}
        Path(config["folder"], "result.json").write_text(json.dumps(result))


def trained(bootstrap: str, topic: str, folder: str, rows: str) -> dict[str, Any]:
    """The counts of all workers together."""
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(
        num_cpus=4, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
        logging_level="error",
    )  # fmt: skip
    config = {
        "shards": ray_data.sharded(topic, bootstrap_servers=bootstrap), "folder": folder, "rows": int(rows)
    }  # fmt: skip
    TorchTrainer(
        loop,
        train_loop_config=config,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="training", storage_path=folder, failure_config=FailureConfig(max_failures=1)
        ),
    ).fit()
    ray.shutdown()
    found: dict[str, Any] = json.loads(Path(folder, "result.json").read_text())
    return found


if __name__ == "__main__":
    program, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps({"loader": loaded, "train": trained}[program](*arguments)))
