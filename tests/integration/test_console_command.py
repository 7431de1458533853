"""`headrace console` as a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import headrace
import pytest
from command_line import CommandLine
from console_pages import Pages, plain


def test_console_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    """Its options reach the pages; Ctrl-C ends it with the exit code of an interrupt."""
    masks = tmp_path / "masks.txt"
    masks.write_text("# people\npeople:value\n")
    with headrace.local() as cluster:
        cluster.admin().create_topics(headrace.NewTopic("people", 1, 1)).raise_for_errors()
        with cluster.producer() as producer:
            producer.send("people", b"Ann").result(10)
        command = (sys.executable, "-m", "headrace", "console", "-b", cluster.bootstrap, "--port", "0")
        options = ("--read-only", "--mask-file", str(masks))
        with subprocess.Popen((*command, *options), stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                line = process.stderr.readline()
                assert line.endswith("(read-only)\n"), line
                with Pages(line.split()[4]) as pages:
                    text = pages.get("/topics/people/messages")
                    assert "Ann" not in text
                    assert "Masked on this topic: people:value" in plain(text)
                    assert "New topic" not in plain(pages.get("/topics"))
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 130
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("console -b 127.0.0.1:1 --mask orders", "is not a mask such as"),
        ("console -b 127.0.0.1:1 -X ssl.certificate.location=cert.pem", "need each other"),
        ("up --console-port 1", "--console-port belongs to --console"),
    ],
)
def test_bad_options_are_errors(command_line: CommandLine, line: str, message: str) -> None:
    code, _, errors = command_line(*line.split())
    assert code == 2
    assert message in errors
