"""The unmodified public Python clients on usage, queue and concurrency."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1 import V1FirecrawlApp

from scraper_service.cli.main import main
from tests.conftest import Service, _stop

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def account(tmp_path_factory, site):
    """The address of a service and the key of a team that has used 3 of 50 credits."""
    data_dir = tmp_path_factory.mktemp("usage")
    service = Service(data_dir)
    limits = ("--credits", "50", "--concurrency", "2", "--name", "the key")
    command = ("keys", "create", *limits, "--data-dir", str(data_dir))
    key = CliRunner().invoke(main, command).output.split()[-1]
    for n in range(3):
        reply = service.post("/v2/scrape", {"url": site.url(f"/text?{n}")}, key=key)
        assert reply.status == 200
    yield {"api_key": key, "api_url": service.url}
    _stop(service)


def check(credits_left, tokens, queue, running, history):
    assert (credits_left.remaining_credits, credits_left.plan_credits) == (47, 50)
    assert credits_left.billing_period_start < credits_left.billing_period_end
    assert (tokens.remaining_tokens, tokens.plan_tokens) == (47 * 15, 50 * 15)
    assert queue.jobs_in_queue == queue.active_jobs_in_queue == 0
    assert (queue.waiting_jobs_in_queue, queue.max_concurrency) == (0, 2)
    assert queue.most_recent_success is not None
    assert (running.concurrency, running.max_concurrency) == (0, 2)
    for found, name in zip(history, ("creditsUsed", "tokensUsed"), strict=True):
        [period] = found.periods
        assert period.apiKey == "the key"
        assert getattr(period, name) == (3 if name == "creditsUsed" else 45)


def test_v2(account):
    client = Firecrawl(**account)
    # The outer class of this release does not pass the history on.
    history = [
        client.v2.get_credit_usage_historical(by_api_key=True),
        client.v2.get_token_usage_historical(by_api_key=True),
    ]
    check(
        client.get_credit_usage(),
        client.get_token_usage(),
        client.get_queue_status(),
        client.get_concurrency(),
        history,
    )
    assert client.v2.get_credit_usage_historical().periods[0].apiKey is None


def test_v2_async(account):
    async def read():
        client = AsyncFirecrawl(**account)
        history = [
            await client.v2.get_credit_usage_historical(by_api_key=True),
            await client.v2.get_token_usage_historical(by_api_key=True),
        ]
        return (
            await client.get_credit_usage(),
            await client.get_token_usage(),
            await client.get_queue_status(),
            await client.get_concurrency(),
            history,
        )

    check(*asyncio.run(read()))


def test_v1(account):
    client = V1FirecrawlApp(**account)
    found = client.get_credit_usage().data
    assert (found.remaining_credits, found.plan_credits) == (47, 50)
    tokens = client.get_token_usage().data
    assert (tokens.remaining_tokens, tokens.plan_tokens) == (705, 750)
    [period] = client.get_credit_usage_historical(by_api_key=True).periods
    assert (period.apiKey, period.creditsUsed) == ("the key", 3)
    [period] = client.get_token_usage_historical().periods
    assert (period.apiKey, period.tokensUsed) == (None, 45)


def test_a_client_raises_an_error_for_too_few_credits(account):
    client = Firecrawl(**account)
    with pytest.raises(Exception, match="Insufficient credits") as caught:
        client.start_crawl("https://example.org", limit=48)
    assert type(caught.value).__name__ == "PaymentRequiredError"
