"""Writes the pictures of docs/CONSOLE.md: `make console-pictures`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import headrace
from chromium import Chromium
from console_shop import append, counting, fill
from headrace.services.console.masking import mask_rule
from headrace.services.console.server import console_server
from headrace.services.web.settings import WebConfig
from waiting import wait_for

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "console"
MOST_BYTES = 150_000
# name, path, width, height, colours
PICTURES = (
    ("overview", "/", 1280, 860, "light"),
    ("overview-dark", "/", 1280, 860, "dark"),
    ("topics", "/topics", 1280, 600, "light"),
    ("topic", "/topics/orders", 1280, 760, "light"),
    (
        "messages",
        "/topics/orders/messages?where=value.amount%20%3E%20200%20and%20value.country%20%3D%3D%20%22de%22",
        1280,
        900,
        "light",
    ),
    ("record", "/topics/orders/0/3", 1280, 900, "light"),
    ("group", "/group?id=billing", 1280, 900, "light"),
    ("delete", "/topics/payments/delete", 1280, 720, "dark"),
    ("phone", "/topics", 375, 760, "light"),
)


APPLICATION = ("application", "/application?id=order-counts", 1280, 860, "light")


def main() -> int:
    """Start a cluster and a console, and take the pictures. Exit code 1 if one is too large."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    masks = (mask_rule("orders:value.card.number"),)
    with headrace.local(nodes=3, controllers=3) as cluster:
        fill(cluster)
        web = WebConfig(port=0)
        with console_server(web, bootstrap=cluster.bootstrap, masks=masks, name="shop") as server:
            browser = Chromium(server.url)
            try:
                for records in (300, 900, 500, 1_400, 1_100):
                    before = _taken(browser)
                    append(cluster, records)
                    wait_for(lambda before=before: _taken(browser) > before, "the next reading")
                for picture in PICTURES:
                    _take(browser, *picture)
                with tempfile.TemporaryDirectory() as folder, counting(cluster, folder) as instance:
                    wait_for(lambda: all(each.tasks for each in instance.threads), "its tasks")
                    append(cluster, 1_000)
                    wait_for(lambda: _is_running(browser), "all tasks run")
                    _take(browser, *APPLICATION)
            finally:
                browser.close()
    large = [file.name for file in FOLDER.glob("*.png") if file.stat().st_size > MOST_BYTES]
    if large:
        sys.stderr.write(f"larger than {MOST_BYTES} bytes: {', '.join(large)}\n")
    return 1 if large else 0


def _take(browser: Chromium, name: str, path: str, width: int, height: int, colours: str) -> None:
    browser.prefer(colours)
    browser.resize(width, height)
    browser.open(path)
    browser.picture(FOLDER / f"{name}.png")


def _is_running(browser: Chromium) -> bool:
    browser.open(APPLICATION[1])
    text = browser.text()
    return "RUNNING" in text and "RESTORING" not in text and "REBALANCING" not in text


def _taken(browser: Chromium) -> int:
    """When the cluster was read, in ms."""
    browser.open("/")
    return int(browser.run("document.getElementById('live').dataset.taken"))


if __name__ == "__main__":
    sys.exit(main())
