"""Every query of the board for Grafana has values in a real Prometheus."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.support.prometheus import Prometheus
from tests.support.receiver import Receiver
from tests.support.waiting import wait_until
from tools.bench.processes import ROOT

BOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text())
QUERIES = {
    target["expr"]: panel["title"]
    for panel in BOARD["panels"]
    for target in panel.get("targets", ())
}
# What Grafana puts in for its variables.
VARIABLES = {"$instance": ".*", "$__rate_interval": "4s"}


def written(query):
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


@pytest.mark.slow  # a rate takes several seconds
def test_no_query_of_the_board_is_empty(clever, chat, site):
    if not Prometheus.is_installed():
        pytest.skip("there is no prometheus; Debian has a package of this name")
    chat.behave(answer={"title": "By the model"})
    numbers = itertools.count()
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    formats = [{"type": "json", "schema": schema, "prompt": "the title"}]
    empty = dict(QUERIES)

    def work(receiver):
        """Do some of everything that the board shows."""
        url = site.url(f"/text?{next(numbers)}")
        for body in (
            {"url": url, "maxAge": 60_000},
            {"url": url, "maxAge": 60_000},
            {"url": "http://no-such-host.invalid/"},
            {"url": site.url("/text"), "formats": formats, "maxAge": 0},
        ):
            clever.post("/v2/scrape", body)
        hook = {"url": receiver.url("/ok"), "events": ["completed"]}
        batch = {"urls": [url], "webhook": hook}
        assert clever.post("/v2/batch/scrape", batch).status == 200
        assert clever.post("/v2/search", {"query": "text"}).status == 200

    def is_whole(prometheus, receiver):
        work(receiver)
        for query in list(empty):
            if prometheus.values(written(query)):
                del empty[query]
        return not empty

    config = (ROOT / "deploy" / "prometheus.yaml").read_text()
    target = clever.url.removeprefix("http://")
    with Receiver() as receiver, Prometheus(config, target) as prometheus:
        [variable] = (
            each["query"]
            for each in BOARD["templating"]["list"]
            if each["name"] == "instance"
        )
        metric, label = variable.removeprefix("label_values(").rstrip(")").split(", ")
        assert label == "instance"
        wait_until(lambda: prometheus.values(metric))
        try:
            wait_until(lambda: is_whole(prometheus, receiver), every_s=0.5)
        except AssertionError:
            pytest.fail(f"these are empty: {empty}")
