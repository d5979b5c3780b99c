"""Checks responses against the service's description of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema

from scraper_service.api.parameters import PublicUrls
from scraper_service.api.versions import V1, V2

if TYPE_CHECKING:
    from tests.conftest import Reply, Service

FORMATS = jsonschema.FormatChecker()

#: Ends of the paths of browser sessions that take a token in the URL, and no key.
WITH_TOKEN = ("/cdp", "/view", "/view/pictures", "/control", "/control/socket")


def version_apps() -> dict[str, Any]:
    """Return the versions of the API by name, for their routes only."""
    nothing: Any = None
    return {
        f"v{number}": app(nothing, nothing, nothing, PublicUrls())
        for number, app in ((1, V1), (2, V2))
    }


class Documented:
    """The document of a service. ``check`` compares replies with it."""

    def __init__(self, service: Service):
        self.json: dict[str, Any] = service.get("/openapi.json", key=None).json
        closed = closed_schema(self.json)
        self._components = closed["components"]
        self._paths = closed["paths"]

    def operation(self, method: str, path: str) -> dict[str, Any]:
        """Return an operation by its path as documented, such as ``/v2/crawl/{id}``."""
        found: dict[str, Any] = self._paths[path][method.lower()]
        return found

    def check(self, method: str, path: str, reply: Reply) -> Reply:
        """Return a reply whose status is documented and whose body has its schema.

        Members that the schema does not name are an error, too.
        """
        answers = self.operation(method, path)["responses"]
        answer = answers[str(reply.status)]
        if "$ref" in answer:
            answer = self._components["responses"][answer["$ref"].rpartition("/")[2]]
        media = reply.headers["Content-Type"].partition(";")[0]
        self.validate(answer["content"][media]["schema"], reply.json)
        return reply

    def validate(self, schema: dict[str, Any], value: Any) -> None:
        """Raise ``ValidationError`` unless ``value`` has a schema of the document."""
        whole = {**closed_schema(schema), "components": self._components}
        validator = jsonschema.Draft202012Validator(whole, format_checker=FORMATS)
        validator.validate(value)


def closed_schema(value: Any) -> Any:
    """Return a document whose objects have only the members that it names."""
    if isinstance(value, list):
        return [closed_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: closed_schema(each) for name, each in value.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


# Options that let a call take long, with the most that tests use.
_SMALL = {
    "limit": 2,
    "maxUrls": 2,
    "maxDepth": 2,
    "maxDiscoveryDepth": 2,
    "timeout": 3000,
    "timeLimit": 30,
    "delay": 0.01,
}


def localized(
    document: dict[str, Any], urls: list[str], ids: list[str]
) -> dict[str, Any]:
    """Return a document whose requests have only these URLs and ids, and small limits."""

    def local(value: Any, name: str = "") -> Any:
        if isinstance(value, list):
            return [local(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {key: local(each, key) for key, each in value.items()}
        if isinstance(properties := found.get("properties"), dict):
            for key, schema in properties.items():
                properties[key] = _limited(key, schema, urls)
        return found

    found: dict[str, Any] = {**document, "components": dict(document["components"])}
    schemas = document["components"]["schemas"]
    found["components"]["schemas"] = {
        name: local(schema) if name.startswith(("V1", "V2")) else schema
        for name, schema in schemas.items()
    }
    found["paths"] = {
        path: {
            method: _local(operation, local, ids) for method, operation in item.items()
        }
        for path, item in document["paths"].items()
    }
    return found


def _local(operation: dict[str, Any], local: Any, ids: list[str]) -> dict[str, Any]:
    found = dict(operation)
    if "requestBody" in found:
        found["requestBody"] = local(found["requestBody"])
    found["parameters"] = [
        {**each, "schema": {"enum": ids}} if each["name"] == "id" else each
        for each in found["parameters"]
    ]
    return found


def _limited(name: str, schema: dict[str, Any], urls: list[str]) -> dict[str, Any]:
    if name in _SMALL and "maximum" in schema:
        return {**schema, "maximum": _SMALL[name]}
    if name == "url" and schema.get("type") == "string":
        return {**schema, "enum": urls}
    if name == "urls":
        return {**schema, "items": {"enum": urls}, "maxItems": 3}
    if name == "webhook":
        return {"enum": urls}
    return schema
