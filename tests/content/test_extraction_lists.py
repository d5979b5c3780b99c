"""Lists of objects by rules: which elements of a page are the items, and what they say."""

from __future__ import annotations

from tests.content.test_extraction import STRING, answer, asked


def listed(name, **properties):
    return asked(**{name: {"type": "array", "items": asked(**properties)}})


POST = {"author": STRING, "text": STRING}
THREAD = """<div itemscope itemtype="https://schema.org/DiscussionForumPosting">
  <h1 itemprop="headline">Goats</h1>
  <p><b itemprop="author">Ada</b> <span itemprop="text">Do goats swim?</span></p>
  <div itemprop="comment" itemscope itemtype="https://schema.org/Comment">
    <b itemprop="author">Bob</b> <span itemprop="text">They do.</span></div>
  <div itemprop="comment" itemscope itemtype="https://schema.org/Comment">
    <b itemprop="author">Cleo</b> <span itemprop="text">Mine never did.</span></div>
</div>"""


def test_the_posts_of_a_thread_begin_with_its_first_one():
    found = answer(THREAD, listed("posts", **POST)).data
    assert [post["author"] for post in found["posts"]] == ["Ada", "Bob", "Cleo"]
    assert found["posts"][0]["text"] == "Do goats swim?"
    found = answer(THREAD, listed("comments", **POST)).data
    assert [comment["author"] for comment in found["comments"]] == ["Bob", "Cleo"]
