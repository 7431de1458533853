"""A log that ends before its snapshot."""

import pytest
from fake_files import FakeFiles
from headrace.controller.quorum.metadata_log import METADATA_PARTITION
from headrace.protocol.metadata.records import FormatRecord, NoOpRecord
from headrace.storage_node.log import names
from headrace.storage_node.log.log import Log
from metadata_rig import DIRECTORY, NOW, Voter, a_config, topic


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_offsets_continue_after_the_snapshot(files: FakeFiles, lost: int) -> None:
    """The last records are missing in the log but not in the snapshot: no offset is used twice."""
    voter = Voter(files)
    voter.decide(FormatRecord("c"))
    voter.decide(*topic(1))
    for _ in range(3):
        voter.decide(NoOpRecord())
    voter.flush()
    voter.log.write_snapshot(voter.image, NOW)
    end_offset = voter.log.end_offset
    voter.log.close()
    stored = Log.open(
        files,
        DIRECTORY,
        a_config(2**20),
        topic_partition=METADATA_PARTITION,
        recovery_point=0,
        was_clean=False,
        wall_ms=NOW,
    )
    stored.truncate_to(end_offset - lost)
    stored.close()
    files.remove(f"{DIRECTORY}/{names.RECOVERY_POINTS}")
    disk = files.restart()
    after = Voter(disk)
    assert after.image == voter.image
    assert after.log.end_offset == end_offset
    after.decide(*topic(2))
    after.flush()
    after.log.close()
    assert Voter(disk.restart()).image == after.image
