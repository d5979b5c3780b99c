"""Data and summaries through the unmodified Python clients, with a model and without."""

from __future__ import annotations

import asyncio

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1 import V1FirecrawlApp
from firecrawl.v1 import client as v1
from firecrawl.v2.types import JsonFormat, QuestionFormat, ScrapeOptions
from firecrawl.v2.utils.error_handler import BadRequestError
from pydantic import BaseModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Article(BaseModel):
    title: str
    author: str | None = None


SCHEMA = Article.model_json_schema()
GOOD = {"title": "By the model", "author": None}


@pytest.fixture(params=["model", "rules"])
def answering(request, chat):
    """The service, and who answers for it."""
    chat.behave("obeys", GOOD)
    name = "clever" if request.param == "model" else "service"
    return request.getfixturevalue(name), request.param


def check(title, metadata, who):
    assert title == (
        "By the model" if who == "model" else "How the harbour reads its tides"
    )
    assert metadata["answeredBy"] == who
    assert metadata["creditsUsed"] == 5


def extra(document):
    known = document.metadata.model_dump()
    return {
        "answeredBy": known.get("answeredBy") or known["answered_by"],
        "creditsUsed": document.metadata.credits_used,
    }


@pytest.mark.slow
def test_v2_gets_data_by_a_schema(answering, site):
    service, who = answering
    client = Firecrawl(api_key=service.key, api_url=service.url)
    data = JsonFormat(type="json", schema=Article, prompt="the article")
    for wanted in (data, {"type": "json", "schema": SCHEMA}):
        document = client.scrape(site.url("/article"), formats=["markdown", wanted])
        check(document.json["title"], extra(document), who)
        assert (document.warning is None) is (who == "model")


@pytest.mark.full(keep=1)
def test_v2_async_gets_data_of_a_batch(answering, site):
    service, who = answering

    async def scrape():
        client = AsyncFirecrawl(api_key=service.key, api_url=service.url)
        options = ScrapeOptions(formats=[JsonFormat(type="json", schema=SCHEMA)])
        urls = [site.url("/article")]
        return await client.batch_scrape(urls, options=options, poll_interval=1)

    job = asyncio.run(scrape())
    check(job.data[0].json["title"], extra(job.data[0]), who)


def test_v2_returns_summaries_and_answers_to_questions(service, clever, chat, site):
    chat.behave("obeys", "Said by the model.")
    question = QuestionFormat(type="question", question="Who wrote it?")
    client = Firecrawl(api_key=clever.key, api_url=clever.url)
    document = client.scrape(site.url("/article"), formats=["summary", question])
    assert document.summary == document.answer == "Said by the model."
    client = Firecrawl(api_key=service.key, api_url=service.url)
    document = client.scrape(site.url("/article"), formats=["summary", question])
    assert document.summary
    assert "question was left out" in document.warning
    with pytest.raises(BadRequestError, match="LLM_BASE_URL"):
        client.scrape(site.url("/article"), formats=[question])


def test_v1_gets_data_by_both_names(answering, site):
    service, who = answering
    client = V1FirecrawlApp(api_key=service.key, api_url=service.url)
    options = v1.V1JsonConfig(schema=SCHEMA, prompt="the article")
    document = client.scrape_url(
        site.url("/article"),
        formats=["json", "extract"],
        json_options=options,
        extract=options,
    )
    check(document.json_field["title"], document.metadata, who)
    check(document.extract["title"], document.metadata, who)
