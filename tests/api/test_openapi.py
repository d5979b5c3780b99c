"""``GET /openapi.json``: it is valid, complete, and what the service does."""

from __future__ import annotations

import inspect
import json
import re

import openapi_spec_validator
import pytest

from scraper_service.api.openapi.route import Route
from scraper_service.errors import InvalidOptions
from scraper_service.options import catalogue
from scraper_service.options.catalogue import COMPUTED, REQUIRED
from scraper_service.options.parsing import (
    Array,
    Choice,
    Number,
    Position,
    Tagged,
    Text,
    bare_kind,
    structure,
)
from tests.support.openapi import Documented, version_apps

APPS = version_apps()
HOW = """{} has no description for GET /openapi.json. Decorate the handler with
@Route(PATH, returns=..., body=..., errors=...) of scraper_service/api/openapi/route.py:
returns is the class of its response (scraper_service/api/schemas.py has the notation,
scraper_service/api/routes/jobs.py examples), body the kind that reads its body, errors the
exceptions of api/errors.py that it raises. Read parameters of the query with a class of
scraper_service/api/parameters.py, and list them in parameters=."""

# Where each table of options stands: the path below its version, and the versions.
TABLES = {
    "/scrape": (catalogue.SCRAPE, "v1 v2"),
    "/crawl": (catalogue.CRAWL, "v1 v2"),
    "/batch/scrape": (catalogue.BATCH, "v1 v2"),
    "/map": (catalogue.MAP, "v1 v2"),
    "/search": (catalogue.SEARCH, "v1 v2"),
    "/extract": (catalogue.EXTRACT, "v1 v2"),
    "/llmstxt": (catalogue.LLMS_TEXT, "v1"),
    "/deep-research": (catalogue.RESEARCH, "v1"),
}


@pytest.fixture(scope="module")
def documented(service):
    return Documented(service)


@pytest.fixture(scope="module")
def document(documented):
    return documented.json


def missing_formats(document):
    formats = document["components"]["schemas"]["V2Formats"]["items"]["oneOf"]
    return {each["title"] for each in formats if "x-available" in each}


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def documented_path(rule):
    """Return a Werkzeug pattern as the document writes it."""
    path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)
    path = re.sub(r"{\w+_id}", "{id}", path, count=1)
    return re.sub(r"{(\w+)_id}", r"{\1Id}", path)


def handlers():
    for version in APPS:
        for methods, path, _, handler in APPS[version].routes:
            yield pytest.param(handler, id=f"{version} {methods} {path}")


def resolved(document, schema):
    """Return a schema with what it refers to."""
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    return {**document["components"]["schemas"][name], **schema}


def body_schema(document, version, path):
    body = document["paths"][f"/{version}{path}"]["post"]["requestBody"]
    return body["content"]["application/json"]["schema"]


# -- the document -----------------------------------------------------------------------


def test_the_document_is_valid_openapi(document):
    openapi_spec_validator.validate(document)
    assert document["openapi"].startswith("3.1.")


def test_openapi_json_needs_no_key_and_supports_etags(service):
    first = service.get("/openapi.json", key=None)
    tag = first.headers["ETag"]
    assert first.status == 200
    assert first.headers["Content-Type"] == "application/json; charset=utf-8"
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = service.get("/openapi.json", headers={"If-None-Match": sent})
        assert (again.status, again.json) == (304, None)
        assert again.headers["ETag"] == tag
    other = service.get("/openapi.json", headers={"If-None-Match": '"other"'})
    assert other.status == 200
    head = service.request("HEAD", "/openapi.json")
    assert (head.status, head.headers["ETag"]) == (200, tag)
    assert int(head.headers["Content-Length"]) > 100_000


def test_the_openapi_server_is_the_host_of_the_request(service):
    first = service.get("/openapi.json")
    assert first.json["servers"] == [{"url": service.url}]
    other = service.get("/openapi.json", headers={"Host": "scraper.example:8080"})
    assert other.json["servers"] == [{"url": "http://scraper.example:8080"}]
    assert other.headers["ETag"] != first.headers["ETag"]


def test_other_methods_and_paths_are_refused(service):
    assert service.post("/openapi.json", {}).status == 405
    assert service.get("/openapi.json/more").status == 404


def test_routes_that_cannot_work_stay_in(document, clever):
    path = "/v1/deep-research"
    assert document["paths"][path]["post"]["x-available"] is False
    smart = clever.get("/openapi.json").json
    assert "x-available" not in smart["paths"][path]["post"]
    assert missing_formats(document) == {
        *("audio", "video", "question", "highlights", "query")
    }
    assert missing_formats(smart) == {"audio", "video"}


# -- everything is in it ----------------------------------------------------------------


@pytest.mark.parametrize("version", APPS)
def test_openapi_describes_every_served_route(document, version):
    served = {
        (method, documented_path(f"/{version}{rule.rule}"))
        for rule in APPS[version].klein.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    if version == "v2":
        served.add(("POST", "/v2/mcp"))  # its handler is made with the server
    found = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
        if path.startswith(f"/{version}/")
    }
    assert served == found


def test_openapi_describes_routes_without_a_version(document):
    free = {path for path in document["paths"] if not re.match("/v[12]/", path)}
    assert free >= {"/", "/health", "/health/live", "/health/ready", "/openapi.json"}
    open_to_all = [each for path in free for each in document["paths"][path].values()]
    assert all(each["security"] == [] for each in open_to_all)


@pytest.mark.parametrize("handler", [*handlers()])
def test_every_route_is_described(handler):
    route = getattr(handler, "route", None)
    assert isinstance(route, Route), HOW.format(handler.__qualname__)
    assert inspect.getdoc(handler), f"{handler.__qualname__} has no docstring"
    assert (route.body is None) == (route.example is None), handler


@pytest.mark.parametrize(
    ("path", "version", "option"),
    [
        pytest.param(path, version, option, id=f"{version}{path} {option.attribute}")
        for path, (table, versions) in TABLES.items()
        for version in versions.split()
        for option in table
        if option.name(version) is not None
    ],
)
def test_openapi_describes_every_option_with_bounds_and_default(
    document, path, version, option
):
    schema = body_schema(document, version, path)
    name, kind = option.name(version), bare_kind(option.value_kind(version))
    found = resolved(document, schema["properties"][name])
    assert found["description"] == option.help
    assert found.get("x-own", False) == option.is_own
    match kind:
        case Number():
            most = 365 if kind == catalogue.DAYS else kind.maximum
            assert (found["minimum"], found["maximum"]) == (kind.minimum, most)
        case Text():
            assert found["maxLength"] <= kind.maximum
            assert found.get("minLength", 0) >= kind.minimum
        case Choice():
            assert found["enum"] == list(kind.values)
        case Array():
            assert found["maxItems"] <= kind.maximum
            if isinstance(kind.item, Tagged):
                tags = [
                    each["title"]
                    for each in found["items"]["oneOf"]
                    if each["type"] == "object"
                ]
                assert tags == list(kind.item.kinds)
    default = option.default_value(version)
    assert (name in schema.get("required", ())) == (default is REQUIRED)
    if default is REQUIRED or default is COMPUTED or default is None:
        assert "default" not in found
    else:
        kind = option.value_kind(version)
        assert kind.read(found["default"], Position((), "", [])) == default


def properties(document):
    """Yield every property of every body, with its place."""
    todo = []
    for place, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        todo += [(place, media["schema"]) for media in content.values()]
    for name, schema in document["components"]["schemas"].items():
        if re.match("V[12]", name):
            todo.append((name, schema))
    while todo:
        place, schema = todo.pop()
        for name, each in schema.get("properties", {}).items():
            yield f"{place} {name}", each
            todo.append((f"{place} {name}", each))
        below = [*schema.get("oneOf", ()), schema.get("items")]
        todo += [(place, each) for each in below if each]


def test_no_description_is_that_of_a_python_class(document):
    text = json.dumps(document)
    assert "dict()" not in text
    assert "The handler of" not in text


def test_every_property_of_a_body_has_a_sentence(document):
    bare = [
        place
        for place, schema in properties(document)
        if not schema.get("description") and "const" not in schema
    ]
    assert bare == []


def test_every_default_has_its_schema(documented):
    for place, schema in properties(documented.json):
        if "default" in schema:
            documented.validate(schema, schema["default"]), place


def examples(version):
    app = APPS[version]
    for _, path, _, handler in app.routes:
        route = getattr(handler, "route", None)
        if route is not None and route.body is not None:
            yield pytest.param(app.api, route, id=f"{version} {path}")


@pytest.mark.parametrize(("api", "route"), [*examples("v1"), *examples("v2")])
def test_every_example_is_accepted(api, route):
    kind = route.body
    if isinstance(kind, str):
        kind = getattr(api.requests, kind)
    structure(kind, route.example)
    with pytest.raises(InvalidOptions):
        structure(kind, {**route.example, "nonsense": 1})


def test_every_operation_has_summary_and_errors(document):
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for place, operation in operations(document):
        assert operation["summary"].endswith("."), place
        if operation.get("security") != []:
            assert {"400", "401", "429", "500", "503"} <= operation["responses"].keys()


# -- it is what the service accepts -----------------------------------------------------


def forbidden(document, schema):
    """Yield values that a schema forbids, each wrong in one way."""
    schema = resolved(document, schema)
    if "oneOf" in schema and "properties" not in schema:
        yield 1
        yield {"type": "nonsense", "nonsense": 1}
        for each in schema["oneOf"]:
            if "properties" in each:
                yield from forbidden_objects(document, each)
        return
    match schema.get("type"):
        case "boolean":
            yield from ("true", 1, [])
            yield from {True, False} - set(schema.get("enum", (True, False)))
        case "integer" | "number":
            yield from ("1", True, {})
            yield schema["minimum"] - 1
            yield schema["maximum"] * 2
            yield from [1.5] if schema["type"] == "integer" else []
            yield from [0] if "exclusiveMinimum" in schema else []
        case "string":
            yield from (1, ["a"], False)
            yield from ["nonsense"] if "enum" in schema else []
            yield from (
                ["a" * (schema["maxLength"] + 1)] if "maxLength" in schema else []
            )
            yield from [""] if schema.get("minLength") else []
        case "array":
            yield from ("a", {"0": "a"})
            yield [None] * (schema["maxItems"] + 1)
            yield from [[]] if schema.get("minItems") else []
            yield from ([each] for each in forbidden(document, schema["items"]))
        case "object":
            yield from ("a", [{}])
            if "properties" in schema:
                yield from forbidden_objects(document, schema)


def forbidden_objects(document, schema):
    """Yield objects that a schema forbids, each wrong in one way."""
    tags = {k: v["const"] for k, v in schema["properties"].items() if "const" in v}
    if schema.get("additionalProperties") is False:
        yield {**tags, "nonsense": 1}
    if set(schema.get("required", ())) > set(tags):
        yield tags
    for name, each in schema["properties"].items():
        if name not in tags:
            values = forbidden(document, each)
            yield from ({**tags, name: value} for value in values)


def allowed(document, schema):
    """Yield values at the bounds of a schema."""
    schema = resolved(document, schema)
    if "oneOf" in schema and "properties" not in schema:
        for each in schema["oneOf"]:
            yield from allowed(document, each)
    elif "anyOf" in schema and "properties" not in schema:
        for each in schema["anyOf"]:
            if each != {"type": "null"}:
                yield from allowed(document, each)
    elif "const" in schema:
        yield schema["const"]
    elif "enum" in schema:
        yield from schema["enum"]
    else:
        yield from _of_type(document, schema)


def _of_type(document, schema):
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "boolean":
            yield from (True, False)
        case "integer" | "number" if "exclusiveMinimum" not in schema:
            yield from (schema["minimum"], schema["maximum"])
        case "array":
            yield from [[]] if not schema.get("minItems") else []
            yield from ([each] for each in allowed(document, schema["items"]))
        case "object" if not schema.get("required") and not (
            {"anyOf", "oneOf"} & schema.keys()
        ):
            yield {}
        case "object" if schema.get("required") == ["type"] and ("oneOf" not in schema):
            yield {"type": schema["properties"]["type"]["const"]}
        case None:
            yield from (1, "a", [], {})


def keys_of_bodies(document):
    for version in APPS:
        app = APPS[version]
        for methods, path, _, handler in app.routes:
            route = getattr(handler, "route", None)
            if route is None or route.body is None:
                continue
            kind = route.body
            if isinstance(kind, str):
                kind = getattr(app.api.requests, kind)
            item = document["paths"][documented_path(f"/{version}{path}")]
            operation = item[methods.lower()]
            media, *_ = operation["requestBody"]["content"].values()
            schema = media["schema"]
            if route.takes_file:
                schema = schema["properties"]["options"]
            assert list(schema["properties"]) == list(kind.fields)
            for name, key in kind.fields.items():
                yield f"{version}{path} {name}", key, schema["properties"][name]


def issues_of(key, value):
    at = Position((), "", [])
    key.kind.read(value, at)
    return at.issues


def test_values_that_a_schema_forbids_are_refused(document):
    accepted = [
        (place, value)
        for place, key, schema in keys_of_bodies(document)
        for value in forbidden(document, schema)
        if not issues_of(key, value)
        # Parsing knows no settings; the next test is of the service.
        and (key.kind != catalogue.DAYS or value != 2 * 365)
    ]
    assert accepted == []


def test_days_of_retention_are_bounded_by_the_setting(start_service, site):
    service = start_service(SCRAPER_MAX_RETENTION_DAYS="7")
    document = service.get("/openapi.json", key=None).json
    for path, body in (("/scrape", {}), ("/crawl", {"limit": 1})):
        schema = body_schema(document, "v2", path)["properties"]["retentionDays"]
        assert (schema["minimum"], schema["maximum"]) == (0.01, 7)
        for days, status in ((schema["maximum"], 200), (schema["maximum"] + 1, 400)):
            sent = {"url": site.url("/page/1"), **body, "retentionDays": days}
            assert service.post(f"/v2{path}", sent).status == status


def test_values_that_a_schema_allows_are_accepted(document):
    """Texts have further rules, which a response names."""
    refused = [
        (place, value, issues)
        for place, key, schema in keys_of_bodies(document)
        for value in allowed(document, schema)
        if (issues := issues_of(key, value))
    ]
    assert refused == []
