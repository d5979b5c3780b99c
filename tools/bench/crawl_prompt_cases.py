"""Crawl prompts, their sites and the expected options.

The prompts were written before the first rules that parsed them. ``include`` and ``exclude`` are
paths with all paths below them, or ``*.pdf`` for files. The other names are options of
/v2. The prompts of :data:`HELD_OUT` were not used while these rules were written. The
prompts of :data:`LATER` were written after them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

SITES = {
    "company": """/ /about /about/team /blog /blog/2023/launch /blog/2024/roadmap
        /blog/2024/hiring /blog/archive /blog/archive/2019 /blog/tag/ai /careers
        /careers/engineer /contact /docs /docs/start /docs/api /docs/api/users
        /legal/privacy /legal/terms /login /pricing /products /products/anvil
        /products/rocket /files/report.pdf /img/logo.png""",
    "shop": """/ /cart /checkout /account/login /account/orders /collections
        /collections/shoes /collections/hats /products/red-shoe /products/blue-hat
        /products/green-bag /pages/faq /pages/shipping /blogs/news/sale
        /reviews/red-shoe /search /gift-cards""",
    "docs": """/ /en /en/guide /en/guide/install /en/guide/upgrade /en/reference
        /en/reference/cli /en/reference/api/client /en/tutorials/first /en/changelog
        /en/changelog/2-0 /de /de/guide /de/guide/install /fr/guide/install
        /v1/guide/install /v2/guide/install""",
    "news": """/ /politics/2024/05/vote /politics/2023/11/budget /sport/2024/06/final
        /sport/football/2024/cup /culture/film-review /opinion/column-1 /video/clip-1
        /newsletter /subscribe /authors/jane /tag/economy /archive/2020 /weather""",
    "university": """/ /admissions /admissions/fees /courses/biology /courses/physics
        /departments/physics/staff /events/open-day /news/2024-03-grant
        /news/2023-09-start /research/projects/laser /staff/meyer /library
        /jobs/lecturer /alumni""",
    "forum": """/ /t/how-to-x /t/bug-in-y /u/anna /u/bob /c/help /c/help/install
        /tags/linux /faq /search /members/list /threads/old""",
    # A site that does not respond: the rules have no paths.
    "away": """/ /docs/a /blog/b /private/c /tmp/d /handbook/e /other""",
}


class Sentence(NamedTuple):
    """A prompt for one of :data:`SITES`, with the expected options."""

    site: str
    text: str
    wanted: dict[str, Any]


def _case(site: str, text: str, **wanted: Any) -> Sentence:
    return Sentence(site, text, wanted)


SENTENCES = [
    _case(
        "company",
        "only blog posts from 2024, at most 50 pages, skip the archive, follow subdomains",
        include=["/blog/2024"],
        limit=50,
        allowSubdomains=True,
    ),
    _case("company", "Crawl just the documentation", include=["/docs"]),
    _case(
        "company",
        "everything except the careers and legal pages",
        exclude=["/careers", "/legal"],
    ),
    _case("company", "Get all product pages, max 20", include=["/products"], limit=20),
    _case(
        "company",
        "whole website but no more than 500 pages and wait 2 seconds between requests",
        crawlEntireDomain=True,
        limit=500,
        delay=2,
    ),
    _case("company", "Only pages under /docs/api", include=["/docs/api"]),
    _case("company", "Don't go deeper than two levels", maxDiscoveryDepth=2),
    _case("company", "skip PDFs and images", exclude=["*.pdf", "*.png"]),
    _case("company", "Use only the sitemap", sitemap="only"),
    _case(
        "company",
        "Ignore the sitemap and stay on this domain",
        sitemap="skip",
        allowExternalLinks=False,
    ),
    _case(
        "company",
        "the blog without tag pages or the archive",
        include=["/blog"],
        exclude=["/blog/tag", "/blog/archive"],
    ),
    _case(
        "company",
        "first 10 pages, also follow links to other websites",
        limit=10,
        allowExternalLinks=True,
    ),
    _case("company", "pricing and products only", include=["/pricing", "/products"]),
    _case("company", "I need their API reference", include=["/docs/api"]),
    _case(
        "shop",
        "all products, but not the reviews, ignore query parameters",
        include=["/products"],
        exclude=["/reviews"],
        ignoreQueryParameters=True,
    ),
    _case(
        "shop",
        "avoid cart, checkout and account pages",
        exclude=["/cart", "/checkout", "/account"],
    ),
    _case(
        "shop",
        "up to one hundred items from the shoes collection",
        include=["/collections/shoes"],
        limit=100,
    ),
    _case(
        "shop",
        "only the FAQ and shipping information",
        include=["/pages/faq", "/pages/shipping"],
    ),
    _case("docs", "English pages only", include=["/en"]),
    _case("docs", "only the guide in German", include=["/de/guide"]),
    _case(
        "docs",
        "everything but the changelog, at most 1,000 pages",
        exclude=["/en/changelog"],
        limit=1000,
    ),
    _case(
        "news",
        "politics and sport from 2024",
        include=["/politics/2024", "/sport/2024", "/sport/football/2024"],
    ),
    _case(
        "news",
        "no videos, no opinion, limit 200",
        exclude=["/video", "/opinion"],
        limit=200,
    ),
    _case("news", "only articles from 2023", include=["/politics/2023"]),
    _case(
        "news",
        "Slow down: one request every 5 seconds, at most 30 pages",
        delay=5,
        limit=30,
    ),
    _case(
        "university",
        "course descriptions and admission fees",
        include=["/courses", "/admissions/fees"],
    ),
    _case(
        "university",
        "the news of 2023, not deeper than 3 clicks",
        include=["/news/2023-09-start"],
        maxDiscoveryDepth=3,
    ),
    _case(
        "university",
        "only physics",
        include=["/courses/physics", "/departments/physics"],
    ),
    _case("university", "Just the home page", limit=1),
    _case(
        "forum",
        "threads only, no user profiles",
        include=["/t", "/threads"],
        exclude=["/u", "/members"],
    ),
    _case(
        "forum",
        "exclude search and member lists, follow at most 3 links deep",
        exclude=["/search", "/members"],
        maxDiscoveryDepth=3,
    ),
    _case(
        "away",
        "only the docs and the blog, max 40",
        include=["/docs", "/blog"],
        limit=40,
    ),
    _case(
        "away",
        "skip /private/* and /tmp, include subdomains",
        exclude=["/private", "/tmp"],
        allowSubdomains=True,
    ),
]

HELD_OUT = [
    _case(
        "company",
        "blog articles published in 2023, a dozen pages at most",
        include=["/blog/2023"],
        limit=12,
    ),
    _case(
        "company",
        "Collect the team and contact pages",
        include=["/about/team", "/contact"],
    ),
    _case(
        "company",
        "Please crawl the entire site, excluding login and pricing, with a pause of 3"
        " seconds",
        crawlEntireDomain=True,
        exclude=["/login", "/pricing"],
        delay=3,
    ),
    _case(
        "company",
        "documentation, but leave out the API part; no more than 75 pages",
        include=["/docs"],
        exclude=["/docs/api"],
        limit=75,
    ),
    _case(
        "company",
        "Do not follow external links, include subdomains, depth 4",
        allowExternalLinks=False,
        allowSubdomains=True,
        maxDiscoveryDepth=4,
    ),
    _case(
        "shop", "only the collections, ten pages", include=["/collections"], limit=10
    ),
    _case(
        "shop",
        "gift cards and blog news; strip query strings",
        include=["/gift-cards", "/blogs/news"],
        ignoreQueryParameters=True,
    ),
    _case(
        "shop",
        "everything apart from account pages and search results",
        exclude=["/account", "/search"],
    ),
    _case(
        "docs",
        "tutorials and the CLI reference",
        include=["/en/tutorials", "/en/reference/cli"],
    ),
    _case("docs", "the French pages", include=["/fr"]),
    _case("docs", "version 2 of the guide only", include=["/v2/guide"]),
    _case(
        "news",
        "culture section, fetched from the sitemap only, limit of 15",
        include=["/culture"],
        sitemap="only",
        limit=15,
    ),
    _case(
        "news",
        "anything but weather, newsletter and subscribe pages, 2 levels",
        exclude=["/weather", "/newsletter", "/subscribe"],
        maxDiscoveryDepth=2,
    ),
    _case(
        "news",
        "sports coverage from 2024 (max. 60 pages)",
        include=["/sport/2024", "/sport/football/2024"],
        limit=60,
    ),
    _case(
        "university",
        "events and jobs, following at most one link from the start page",
        include=["/events", "/jobs"],
        maxDiscoveryDepth=1,
    ),
    _case(
        "university",
        "research projects; treat similar URLs as different pages",
        include=["/research/projects"],
        deduplicateSimilarURLs=False,
    ),
    _case(
        "away",
        "Only pages below /handbook, at most 250, no subdomains",
        include=["/handbook"],
        limit=250,
        allowSubdomains=False,
    ),
]

LATER = [
    _case("company", "Grab the whole docs section", include=["/docs"]),
    _case(
        "company",
        "I'm only interested in what they sell, i.e. the products",
        include=["/products"],
    ),
    _case(
        "company",
        "Can you crawl the blog but stop after 30 posts?",
        include=["/blog"],
        limit=30,
    ),
    _case(
        "company",
        "Nothing older than 2024 from the blog",
        include=["/blog"],
        exclude=["/blog/2023", "/blog/archive/2019"],
    ),
    _case(
        "company",
        "Please leave the careers section alone and don't touch /files.",
        exclude=["/careers", "/files"],
    ),
    _case(
        "company",
        "crawl up to 3 links away from the homepage, and no more than 100 pages in total",
        maxDiscoveryDepth=3,
        limit=100,
    ),
    _case(
        "company",
        "privacy policy and terms of service",
        include=["/legal/privacy", "/legal/terms"],
    ),
    _case("shop", "the reviews of the red shoe", include=["/reviews/red-shoe"]),
    _case(
        "shop",
        "products and collections, one page per second, include all subdomains",
        include=["/products", "/collections"],
        delay=1,
        allowSubdomains=True,
    ),
    _case(
        "shop",
        "Don't bother with the cart or anything that needs an account.",
        exclude=["/cart", "/account"],
    ),
    _case(
        "docs",
        "API client reference, English version",
        include=["/en/reference/api/client"],
    ),
    _case(
        "docs",
        "all upgrade and installation instructions except v1 and v2",
        include=[
            "/en/guide/upgrade",
            "/en/guide/install",
            "/de/guide/install",
            "/fr/guide/install",
        ],
        exclude=["/v1", "/v2"],
    ),
    _case(
        "news",
        "football 2024",
        include=["/sport/football/2024"],
    ),
    _case(
        "news",
        "politics, max depth 2, max pages 80, without videos",
        include=["/politics"],
        exclude=["/video"],
        maxDiscoveryDepth=2,
        limit=80,
    ),
    _case(
        "university",
        "who works there? just the staff pages, limit: 500",
        include=["/staff"],
        limit=500,
    ),
    _case(
        "university",
        "Everything about research, but external links should not be followed",
        include=["/research"],
        allowExternalLinks=False,
    ),
    _case(
        "away",
        "Get me the documentation in at most twenty pages and ignore URL parameters",
        include=["/docs"],
        limit=20,
        ignoreQueryParameters=True,
    ),
]
