"""The synchronous clients of clients/sync/, made from the asyncio clients of clients/aio/ (ADR 29).

`python -m headrace.services.sync_clients` (or `make docs`) writes them; a tidy test fails when they are not
current. A line with the comment `# async only` is left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENTS = Path(__file__).parents[1] / "clients"
MODULES = (
    "admin_io",
    "cluster_io",
    "consumer_io",
    "group_io",
    "replicas_admin_io",
    "lag_admin_io",
    "roles_admin_io",
    "security_admin_io",
    "transaction_io",
)
COMMAND = "python -m headrace.services.sync_clients"

# Order: sentences first, while they still have the words of the asyncio side.
REPLACEMENTS: tuple[tuple[str, str], ...] = (
    (r"The asyncio ", "The synchronous "),
    (r"asyncio clients", "clients"),
    (r"Belongs to one event loop\.", "Thread-safe."),
    (r"Belongs to one task at a time;", "Belongs to one thread at a time;"),
    (r"any task may", "any thread may"),
    (
        r"by the event loop\n +of the consumer\.",
        "on the IO thread: it must\n        neither block nor call this consumer.",
    ),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit|iter)__", r"__\1__"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basync_(?=[a-z])", ""),
    (r"\bimport asyncio\b", "import concurrent.futures"),
    (r"\basyncio\.Future\b", "concurrent.futures.Future"),
)


def sync_source(module: str, clients: Path = CLIENTS) -> str:
    """The source of clients/sync/`module`.py."""
    lines = (clients / "aio" / f"{module}.py").read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if "# async only" not in line)
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    header = f"# Made by `{COMMAND}` from clients/aio/{module}.py: edit that file.\n"
    return _formatted(header + text, f"clients/sync/{module}.py")


def _formatted(text: str, name: str) -> str:
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def write_modules() -> None:
    """Generate the files of clients/sync from clients/aio."""
    for module in MODULES:
        (CLIENTS / "sync" / f"{module}.py").write_text(sync_source(module))


if __name__ == "__main__":
    write_modules()
