"""The OpenAPI document has the routes, and is well-formed."""

from typing import Any, cast

import jsonschema
import pytest
from headrace.services.rest.application import RestApplication
from headrace.services.rest.openapi import document
from headrace.services.rest.settings import RestConfig
from headrace.services.web.settings import WebConfig

_METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def application() -> RestApplication:
    return RestApplication(cast("Any", None), WebConfig(), RestConfig())


@pytest.fixture(scope="module")
def described(application: RestApplication) -> dict[str, Any]:
    return document(application.table.routes, "http://localhost:8082", "1")


def test_each_route_is_described_and_each_operation_is_served(
    application: RestApplication, described: dict[str, Any]
) -> None:
    """Both ways, with path parameters, bodies and content types."""
    operations = {
        (method, path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(each.method.lower(), each.path) for each in application.table.routes}
    for (method, path), operation in operations.items():
        filled = path.replace("{", "").replace("}", "").encode()
        route, params = application.table.find(method.upper(), filled)
        assert route.path == path
        named = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
        assert named == list(params)
        assert ("requestBody" in operation) == (route.request is not None)
        content = operation["responses"][str(route.status)].get("content", {})
        assert list(content) == (list(route.returns) if route.response is not None else [])


def test_document_is_well_formed(described: dict[str, Any]) -> None:
    """The fields that OpenAPI 3.1 requires; schemas are JSON Schema; references lead somewhere."""
    assert {"openapi", "info", "paths", "components"} <= set(described)
    assert {"title", "version"} <= set(described["info"])
    ids = set()
    for path, methods in described["paths"].items():
        assert path.startswith("/")
        assert set(methods) <= _METHODS
        for operation in methods.values():
            ids.add(operation["operationId"])
            assert all("description" in each or "$ref" in each for each in operation["responses"].values())
            names = [(each["in"], each["name"]) for each in operation.get("parameters", ())]
            assert len(names) == len(set(names))
            assert all(each["required"] for each in operation.get("parameters", ()) if each["in"] == "path")
    assert len(ids) == sum(map(len, described["paths"].values()))
    for schema in (*named(described["paths"], "schema"), *described["components"]["schemas"].values()):
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in named(described, "$ref"):
        place: Any = described
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def named(value: Any, name: str) -> list[Any]:
    """All values of this name in a document."""
    if isinstance(value, list):
        return [each for item in value for each in named(item, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if name in value else []
    return own + [each for item in value.values() for each in named(item, name)]
