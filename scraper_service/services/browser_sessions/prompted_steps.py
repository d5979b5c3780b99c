"""Steps by a prompt: a language model reads the page and chooses commands, until it is done.

A page may hold text that speaks to the model. So its commands are only those of a visitor: it
runs no scripts, and opens URLs of the page's own host or of the prompt alone. The rules for
networks hold as for every step.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.crawling.browser.command_lines import (
    CommandInvalid,
    LineRefused,
    parse_lines,
)
from scraper_service.crawling.page_errors import ActionFailed, BrowserGone
from scraper_service.errors import ServiceUnavailable
from scraper_service.llm.model import LanguageModel, ModelError
from scraper_service.options.urls import host_of
from scraper_service.services.browser_sessions.failures import FAILURES, reason_of

if TYPE_CHECKING:
    from scraper_service.crawling.browser.command_lines import PageCommand

MOST_ROUNDS = 15  # answers of the model to one prompt
MOST_COMMANDS = 10  # of one answer
MAX_TREE = (
    9000  # bytes of a snapshot; a text in several pieces would get several answers
)
MAX_NOTES = 2000  # characters of what the commands so far have done
ANSWER_S = 120.0
ALLOWED = (
    *("open", "click", "fill", "type", "press", "scroll", "find", "wait", "get"),
    "back",
)
TASK = """You operate a web page for somebody, step by step. What they want: {prompt}

The document is the page as it is now: its URL, then its accessibility tree, in which @e1 and
the like are ids of elements. Answer with JSON: "commands" is a list of the next commands, at
most {most}, or empty if nothing more is to be done; "done" is true if what they want is done
or cannot be done; "answer" is then the answer for them, in their language, else empty.
Commands: open URL | click ID | fill ID "TEXT" | type ID "TEXT" | press KEY | scroll down |
scroll up | find text "TEXT" click | wait MILLISECONDS | get text ID | back
After the commands you see the page again. Done so far:
{notes}"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {"type": "array", "items": {"type": "string"}},
        "done": {"type": "boolean"},
        "answer": {"type": "string"},
    },
    "required": ["commands", "done"],
}
UNFINISHED = (
    f"The language model was not done after {MOST_ROUNDS} rounds of commands; a further"
    " prompt goes on from there."
)


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_NAME = re.compile(r"[\w.-]+")  # what may be a host


@define
class PromptRun:
    """The rounds of one prompt in a page."""

    model: LanguageModel
    #: A :class:`~scraper_service.crawling.browser.held_page.HeldPage`, whose import is slow.
    page: Any
    prompt: str
    #: The key or team whose tokens are counted.
    account: str
    job_id: str
    #: When the step ends (:func:`time.monotonic`).
    deadline: float
    #: The commands and what they printed.
    notes: list[str] = field(factory=list)
    #: The last snapshot that the model has read.
    tree: str = ""

    async def run(self) -> str:
        """Return the answer of the model.

        Raises :exc:`~scraper_service.llm.model.ModelError`, and :exc:`ActionFailed` if it
        was not done.
        """
        for _ in range(MOST_ROUNDS):
            value = await self._ask()
            commands = [str(each) for each in value.get("commands") or []]
            await self._do(commands[:MOST_COMMANDS])
            answer = str(value.get("answer") or "")
            if value.get("done") or (answer and not commands):
                return answer
            if not commands:
                raise ModelError("it named no command and gave no answer")
        raise ActionFailed(UNFINISHED)

    async def _ask(self) -> dict[str, Any]:
        from scraper_service.crawling.browser.command_lines import snapshot  # noqa: PLC0415

        opened = self.page.opened
        tree = await snapshot(
            opened.page, only_interactive=False, timeout_ms=opened.patience_ms
        )
        whole = f"{self.page.url or 'no page is open'}\n{tree}".encode()
        self.tree = whole[:MAX_TREE].decode(errors="ignore")
        notes = "\n".join(self.notes)[-MAX_NOTES:] or "nothing"
        answer = await self.model.ask(
            task=TASK.format(prompt=self.prompt, most=MOST_COMMANDS, notes=notes),
            data=self.tree,
            schema=SCHEMA,
            deadline_s=max(1.0, min(ANSWER_S, self.deadline - time.monotonic())),
            account=self.account,
            job_id=self.job_id,
        )
        return answer.value if isinstance(answer.value, dict) else {}

    async def _do(self, lines: list[str]) -> None:
        """Run commands of the model. It gets to know which one failed, and why."""
        from scraper_service.crawling.browser.held_page import CommandRun  # noqa: PLC0415

        for given in lines:
            line = given.encode(errors="replace").decode()  # of half a character
            run = CommandRun(self.page)
            try:
                [command] = parse_lines(line)
                self._check(command)
                await run.run([command])
            except (BrowserGone, ServiceUnavailable):
                raise
            except (CommandInvalid, LineRefused, ValueError) as error:
                self.notes.append(f"{line[:200]}: failed: {error}"[:500])
                return
            except FAILURES as error:
                self.notes.append(f"{line[:200]}: failed: {reason_of(error)}"[:500])
                return
            self.notes.append(f"{line[:200]}: {''.join(run.printed)[:300] or 'done'}")

    def _check(self, command: PageCommand) -> None:
        """Raise :exc:`CommandInvalid` for what a visitor would not do."""
        if command.name not in ALLOWED:
            raise CommandInvalid(f"{command.name} is not possible here")
        if command.name == "open":
            url = command.words[0]
            place = host_of(url if _SCHEME.match(url) else f"http://{url}")
            known = host_of(self.page.url) if self.page.url else ""
            named = {each.strip(".-") for each in _NAME.findall(self.prompt.lower())}
            if not place or (place != known and place not in named):
                raise CommandInvalid(
                    f"open takes URLs of {known or 'the prompt'} and of the prompt"
                )
