"""Walking the batches of a file, up to the first damaged byte."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import CorruptMessageError
from headrace.storage_node.log.batches import scan_batches, walk_headers
from log_rig import batch


@pytest.mark.parametrize("sizes", [[10], [10, 10, 10], [2_000_000, 10, 1_500_000], [5000] * 500])
def test_all_batches_of_a_file(files: FakeFiles, sizes: list[int]) -> None:
    """Many small batches per chunk, and batches larger than a chunk: both walkers find the same."""
    batches = [batch(1, size=size) for size in sizes]
    files.put("/a.log", b"".join(batches))
    file = files.open("/a.log")
    scanned = list(scan_batches(file, 0, file.size()))
    assert [bytes(found.data) for found in scanned] == batches
    walked = list(walk_headers(file, 0, file.size()))
    assert walked == [(found.position, found.header) for found in scanned]
    assert [position for position, _ in walked] == [sum(map(len, batches[:n])) for n in range(len(batches))]


@pytest.mark.parametrize("walker", [scan_batches, walk_headers])
def test_truncated_file_yields_whole_batches_then_raises(files: FakeFiles, walker: object) -> None:
    """The file is truncated at every byte of the last batch; the error has the position."""
    whole = batch(1)
    for size in range(1, len(whole)):
        files.put("/a.log", whole + whole[:size])
        file = files.open("/a.log")
        found = []
        with pytest.raises(CorruptMessageError, match=f"/a.log at byte {len(whole)}"):
            found.extend(walker(file, 0, file.size()))  # type: ignore[operator]
        found = []
        iterator = walker(file, 0, file.size())  # type: ignore[operator]
        found.append(next(iterator))
        assert len(found) == 1
