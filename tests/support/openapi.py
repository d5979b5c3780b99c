"""Checks responses against the service's description of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema

if TYPE_CHECKING:
    from tests.conftest import Reply, Service

FORMATS = jsonschema.FormatChecker()


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
        whole = {**schema, "components": self._components}
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
