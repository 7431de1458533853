"""A client of the console that follows its forms: no script runs."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Self

import httpx

_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


class Pages:
    """Loads pages and sends forms with the token of the session."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=30, follow_redirects=True)

    def get(self, path: str, status: int = 200, **query: Any) -> str:
        """The text of a page."""
        response = self.http.get(path, params=query or None)
        assert response.status_code == status, f"{path}: {response.status_code}\n{plain(response.text)}"
        return response.text

    def post(self, path: str, status: int = 200, **fields: Any) -> str:
        """Send a form; the text of the page that follows."""
        response = self.http.post(path, data={"csrf": self.token(), **fields})
        assert response.status_code == status, f"{path}: {response.status_code}\n{plain(response.text)}"
        return response.text

    def token(self) -> str:
        """The token of this session's forms."""
        found = _TOKEN.search(self.http.get("/new-topic").text)
        assert found, "the page has no form"
        return found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.http.close()


def plain(html: str) -> str:
    """The text of a page without its tags, in single spaces."""
    body = html.partition("<main")[2].partition("</main>")[0] or html
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())
