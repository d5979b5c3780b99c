"""Steps of browser sessions by a prompt, with a fake language model (interface, 27.4)."""

from __future__ import annotations

import pytest

from tests.api.test_odd_model_answers import odd_answers
from tests.browser.conftest import SETTINGS
from tests.conftest import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory, chat):
    settings = {**SETTINGS, **chat.environment}
    running = Service(tmp_path_factory.mktemp("prompt"), **settings)
    yield running
    assert running.stop() == 0, running.stderr


@pytest.fixture(scope="module")
def session(service, app):
    return service.post("/v2/interact", {"url": app.url("/form"), "ttl": 600}).json[
        "id"
    ]


@pytest.fixture
def ask(service, session, chat, app):
    """Return a function that sends a prompt, whose model gives some answers in turn."""

    def call(*answers, prompt="press the button", mode="obeys", **more):
        path = f"/v2/interact/{session}/execute"
        start = {"code": f"open {app.url('/form')}", "language": "bash"}
        assert service.post(path, start).json["success"]
        chat.behave(mode, answer={"answers": list(answers)})
        reply = service.post(path, {"prompt": prompt, "timeout": 60, **more})
        assert reply.status == 200, reply.json
        return reply.json

    return call


def answer(*commands, done=False, said=""):
    return {"commands": list(commands), "done": done, "answer": said}


def test_a_model_acts_until_it_is_done(ask, chat, app):
    found = ask(
        answer("fill '#name' \"Ada\"", "press Enter"),
        answer("find text Go click"),
        answer(done=True, said="The button was pressed."),
        formats=["markdown"],
    )
    assert found["success"] is True, found
    assert found["output"] == "The button was pressed."
    assert "entered Ada clicked" in found["data"]["markdown"], found
    assert "find text Go click: done" in found["stdout"]
    assert 'button "Go"' in found["result"]
    first, *_, last = chat.asked()
    text = str(first["body"]["messages"])
    assert "press the button" in text
    assert app.url("/form") in text
    assert "fill '#name'" in last["body"]["messages"][-1]["content"]


def test_a_session_with_prompts_costs_more(service, app, chat):
    session_id = service.post("/v2/interact", {"url": app.url("/form")}).json["id"]
    chat.behave(answer=answer(done=True, said="Nothing to do."))
    path = f"/v2/interact/{session_id}"
    assert service.post(f"{path}/execute", {"prompt": "look"}).json["output"]
    assert service.request("DELETE", path).json["creditsBilled"] == 7


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("eval 'document.title'", "eval is not possible"),
        ("open http://127.0.0.3/steal", "open takes URLs of"),
        ("open '127.0.0.3:1/q?x://127.0.0.2/'", "open takes URLs of"),
        ("open http://127.0.0.4/begins-like-that-of-the-prompt", "open takes URLs of"),
        ("\ud83d", "failed: "),
        ("snapshot | sh", "failed: a pipe"),
        ("click @e999", "failed: click @e999"),
        ("close", "close is not possible"),
    ],
)
def test_a_model_may_use_only_commands_of_a_visitor(ask, command, part):
    prompt = "press the button, not http://127.0.0.41/"
    found = ask(answer(command), answer(done=True, said="No."), prompt=prompt)
    assert found["success"] is True
    assert part in found["stdout"]


def test_a_url_of_the_prompt_may_be_opened(ask, app):
    url = app.url("/colours").replace("127.0.0.2", "127.0.0.3")
    found = ask(
        answer(f"open {url}"), answer(done=True, said="There."), prompt=f"go to {url}"
    )
    assert "open takes" not in found["stdout"]
    assert found["output"] == "There."


def test_a_model_without_an_end_is_stopped(ask, chat):
    found = ask(answer("scroll down"))
    assert (found["success"], found["exitCode"]) == (False, 1)
    assert "15 rounds" in found["error"]
    assert len(chat.asked()) == 15


def test_a_model_that_fails_fails_the_step(ask):
    found = ask(answer(done=True), mode="refuses")
    assert (found["success"], found["exitCode"]) == (False, 1)
    assert "language model" in found["error"]


@pytest.mark.full(keep=4)
@odd_answers
def test_a_reply_without_a_valid_command_fails_the_step(ask, chat, said):
    found = ask(said)
    assert (found["success"], found["exitCode"]) == (False, 1), found
    assert "language model" in found["error"]
    assert len(chat.asked()) <= 3
