"""The OpenAPI 3.1 document of a route table, and a page that shows it. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from ..web.problems import PROBLEM_TYPE, ProblemBody

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..web.routes import Param, Route

VERSION = "3.1.0"
_PLACE = "#/components/schemas/{name}"
_DESCRIPTION = (
    "Topics over HTTP. Paths below /v3 and those without a version are the ones of Confluent's REST proxy;"
    " operations that are additions of headrace say so. Errors are problem documents (RFC 9457) with"
    " Confluent's error_code and message."
)
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .5rem; border: 1px solid #8884; border-radius: .3rem; }
details { border-top: 1px solid #8884; padding: .4rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { display: inline-block; min-width: 4.5em; }
table { border-collapse: collapse; }
td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
"""


def document(routes: Iterable[Route], server_url: str, version: str) -> dict[str, Any]:
    """The OpenAPI document."""
    shown = list(routes)
    types = [each for route in shown for each in (route.request, route.response) if each is not None]
    schemas, components = msgspec.json.schema_components([*types, ProblemBody], ref_template=_PLACE)
    by_type = dict(zip((_key(each) for each in types), schemas, strict=False))
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": VERSION,
        "info": {"title": "headrace REST", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": server_url}],
        "security": [{}, {"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Problem": _problem(schemas[-1])},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": route.summary, "operationId": _id(route), "tags": [route.tag]}
    if route.doc:
        found["description"] = route.doc
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.names
    ]
    parameters += [_parameter(each) for each in route.params]
    if parameters:
        found["parameters"] = parameters
    if route.request is not None:
        content = {kind: {"schema": schemas[_key(route.request)]} for kind in route.accepts}
        found["requestBody"] = {"required": True, "content": content}
    response: dict[str, Any] = {"description": route.summary}
    if route.response is not None:
        content = {kind: {"schema": schemas[_key(route.response)]} for kind in route.returns}
        response["content"] = content
    found["responses"] = {str(route.status): response, "default": {"$ref": "#/components/responses/Problem"}}
    return found


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": "query",
        "required": param.is_required,
        "description": param.doc,
        "schema": param.schema,
    }


def _problem(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": "The request failed.", "content": {PROBLEM_TYPE: {"schema": schema}}}


def _id(route: Route) -> str:
    words = route.path.replace("/", " ").replace("{", " ").replace("}", " ").replace(":", " ").split()
    return "_".join((route.method.lower(), *("all" if word == "-" else word for word in words))).replace(
        "-", "_"
    )


def _key(kind: Any) -> str:
    return repr(kind)


# --- the page ------------------------------------------------------------------------------------------


def page_policy() -> str:
    """The Content-Security-Policy of the page: its own style and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"


def page(found: Mapping[str, Any]) -> str:
    """The document as HTML, without scripts."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_section(path, method, operation, found))
    parts = [f"<h2>{escape(tag)}</h2>{''.join(sections)}" for tag, sections in by_tag.items()]
    info = found["info"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
        f'<p><a href="openapi.json">openapi.json</a></p>{"".join(parts)}</body></html>'
    )


def _section(path: str, method: str, operation: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    parts = [
        f"<details><summary><b>{method.upper()}</b><code>{escape(path)}</code><br>"
        f"{escape(operation['summary'])}</summary>"
    ]
    if "description" in operation:
        parts.append(f"<p>{escape(operation['description'])}</p>")
    queries = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    if queries:
        rows = (
            f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['description'])}</td></tr>"
            for each in queries
        )
        parts.append(f"<table>{''.join(rows)}</table>")
    if "requestBody" in operation:
        parts.append(_contents("Request", operation["requestBody"]["content"], found))
    for status, response in operation["responses"].items():
        if status != "default":
            parts.append(_contents(f"Response {status}", response.get("content", {}), found))
    return "".join((*parts, "</details>"))


def _contents(title: str, content: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    kinds = ", ".join(content) or "no body"
    text = f"<p>{escape(title)}: {escape(kinds)}</p>"
    schema = next((each["schema"] for each in content.values()), None)
    if schema is None:
        return text
    return f"{text}<pre>{escape(json.dumps(_resolved(schema, found, 3), indent=1))}</pre>"


def _resolved(schema: Any, found: Mapping[str, Any], depth: int) -> Any:
    """A schema with the ones that it refers to, down to a depth."""
    if isinstance(schema, list):
        return [_resolved(each, found, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if reference is not None:
        name = reference.rpartition("/")[2]
        return _resolved(found["components"]["schemas"][name], found, depth - 1) if depth else {"$ref": name}
    return {name: _resolved(each, found, depth) for name, each in schema.items() if name != "title"}
