"""`TorchDataset`: a shard for a torch DataLoader. Needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .training_io import ShardIterator


class TorchDataset(IterableDataset):  # type: ignore[misc]
    """For `DataLoader(TorchDataset(iterator), batch_size=None, num_workers=n)`: the workers share the shard.

    `state_dict` and `load_state_dict` apply to the calling process; torchdata's StatefulDataLoader calls them
    in each worker.
    """

    def __init__(self, iterator: ShardIterator) -> None:
        super().__init__()
        self._iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterator)

    def state_dict(self) -> dict[str, Any]:
        """As `ShardIterator.state_dict`."""
        return self._iterator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """As `ShardIterator.load_state_dict`."""
        self._iterator.load_state_dict(state)
