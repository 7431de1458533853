"""The examples of docs/REST.md, run by curl in their order."""

import json
import subprocess
from typing import Any

import headrace
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig
from pages import Block, blocks, text_of

ANY = "…"


def fits(expected: Any, found: Any) -> bool:
    """Whether the document has what the page shows; `…` stands for any text."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            name in found and fits(value, found[name]) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(fits, expected, found))
    return expected == found if expected != ANY else isinstance(found, str)


def test_examples_of_the_page() -> None:
    """Each response has what the page shows after the command."""
    shown = [each for each in blocks(text_of("docs/REST.md")) if each.language in ("sh", "json")]
    with headrace.local() as cluster, rest_server(WebConfig(port=0), bootstrap=cluster.bootstrap) as server:
        cluster_id, count = "", 0
        for number, block in enumerate(shown):
            if block.language == "json":
                continue
            command = block.text.strip().replace("http://localhost:8082", server.url)
            command = command.replace("$CLUSTER", cluster_id)
            done = subprocess.run(
                f"{command} -s --noproxy '*'",
                shell=True,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            count += 1
            found = json.loads(done.stdout) if done.stdout else None
            following = shown[number + 1] if number + 1 < len(shown) else Block("", "")
            if following.language == "json":
                assert fits(json.loads(following.text), found), (command, found)
            elif "/records?" in command:
                assert {each["key"] for each in found} <= {"ann", "bob"}
                assert found
            else:
                assert found is None, (command, found)
            cluster_id = cluster_id or found["data"][0]["cluster_id"]
    assert count == 10
