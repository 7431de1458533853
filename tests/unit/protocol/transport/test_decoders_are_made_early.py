"""No message type is worked out while threads run: two that come to it at once would crash the process."""

import subprocess
import sys

# What runs of msgspec's own Python code: it works types out, once each, and gives the GIL away on the way.
PROBE = """
import sys
from headrace.protocol.messages.registry import ALL_APIS
from headrace.protocol.metadata.records import MetadataRecord
from headrace.protocol.transport import wire
from headrace.services import cluster_files_io
import headrace.controller.quorum.record_batches, headrace.controller.quorum.election_state
import msgspec

late = []
class Late(msgspec.Struct):
    field: "int"

def watch(frame, event, _):
    if event == "call" and frame.f_code.co_filename.endswith("msgspec/_utils.py"):
        late.append(frame.f_locals.get("obj"))

sys.setprofile(watch)
wire.served_apis(ALL_APIS)
for api in ALL_APIS:
    wire.response_decoder(api)
msgspec.msgpack.Decoder(MetadataRecord)
cluster_files_io.read_cluster_file("early")
found = list(late)
msgspec.msgpack.Decoder(Late)
sys.setprofile(None)
assert late != found, "the probe sees nothing"
print(found)
"""


def test_all_types_are_worked_out_by_the_import(tmp_path, monkeypatch) -> None:
    """Those of messages, of the metadata log and of the cluster file."""
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "early.json").write_text(
        '{"cluster": "early", "ray_address": "", "bootstrap": [], "nodes": 1, "data_dir": ""}'
    )
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("[]\n", "")
