"""An HTTP client whose every response is validated by the server's own OpenAPI document."""

import json
import re
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema

# Bodies that are not one JSON document.
STREAMED = ("text/event-stream", "text/html")


class CheckedResponses:
    """The event hook of a client."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.checked: set[tuple[str, str]] = set()

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        found: dict[str, Any] = httpx.get(f"{self._url}/openapi.json", verify=False).json()
        return found

    def __call__(self, response: httpx.Response) -> None:
        """Fails for a response that is not as described."""
        kind = response.headers.get("content-type", "")
        if kind.startswith(STREAMED):
            return
        response.read()
        path = urlsplit(str(response.request.url)).path
        method = response.request.method.lower()
        name = self._template(path, method)
        if name is None:
            assert response.status_code in (404, 405, 421), f"{path} is not in the document"
            return
        responses = self.document["paths"][name][method]["responses"]
        described = responses.get(str(response.status_code))
        if described is None:
            assert response.status_code >= 400, f"{method} {path}: {response.status_code} is not described"
            described = self.document["components"]["responses"]["Problem"]
        content = described.get("content", {})
        if not content:
            assert response.content == b""
            return
        assert kind in content, f"{method} {path}: {kind} is not among {list(content)}"
        for body in _documents(response.text):
            self._validate(body, content[kind]["schema"])
        self.checked.add((method, name))

    def _template(self, path: str, method: str) -> str | None:
        fitting = [
            name
            for name, methods in self.document["paths"].items()
            if method in methods and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name), path)
        ]
        return min(fitting, key=lambda name: name.count("{"), default=None)

    def _validate(self, body: Any, schema: dict[str, Any]) -> None:
        whole = {**schema, "components": self.document["components"]}
        jsonschema.Draft202012Validator(whole).validate(body)


def _documents(text: str) -> list[Any]:
    """The JSON documents of a body, one after the other."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        body, at = decoder.raw_decode(text, at)
        found.append(body)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def checked_client(url: str, **options: Any) -> httpx.Client:
    """A client of the server at this address."""
    hook = CheckedResponses(url)
    return httpx.Client(base_url=url, timeout=30, event_hooks={"response": [hook]}, **options)
