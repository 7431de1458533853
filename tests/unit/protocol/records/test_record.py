"""The record object of both codecs: memory and the garbage collector."""

import gc
import weakref
from typing import Any

import batch_bytes as by_hand
import pytest
from headrace.protocol.records.codec import pick_codec


class Thing:
    """What a deserialiser may put into a record."""

    record: Any = None


@pytest.mark.parametrize("choice", ["python", "compiled"])
@pytest.mark.parametrize("attribute", ["key", "value"])
def test_cycle_through_a_record_is_collected(choice: str, attribute: str) -> None:
    """Decoded records are not tracked by the collector; one that was given an object is found again."""
    record: Any = pick_codec(choice).decode(by_hand.batch(by_hand.record()))[0]
    thing = Thing()
    thing.record = record
    record._fill(**{"key": b"", "value": b""} | {attribute: thing})
    alive = weakref.ref(thing)
    del thing, record
    gc.collect()
    assert alive() is None


def test_compiled_records_stay_out_of_the_collectors_way() -> None:
    """A consumer that holds a million records does not pay for them at every collection."""
    compiled = pick_codec("compiled").decode(by_hand.batch(by_hand.record()))[0]
    assert not gc.is_tracked(compiled)
    compiled._fill(b"key", b"new")  # type: ignore[attr-defined]
    assert gc.is_tracked(compiled)
