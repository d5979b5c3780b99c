"""Steps by code of callers in Python and Node, where the operator lists the language."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scraper_service.crawling.converter_pool.pool import ConverterPool
from scraper_service.errors import variable
from scraper_service.options.limits import parse_languages
from scraper_service.services.browser_sessions.caller_code.browser_socket import (
    browser_socket,
)
from scraper_service.services.browser_sessions.caller_code.program import Program
from scraper_service.services.browser_sessions.caller_code.sandbox import (
    ENDPOINT,
    why_no_program,
)
from scraper_service.services.browser_sessions.caller_code.system_calls import (
    FilterUnavailable,
)
from scraper_service.services.browser_sessions.steps import DONE, FAILED

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
        StepOutcome,
    )
    from scraper_service.services.browser_sessions.steps import Step

logger = logging.getLogger(__name__)

RESULT, ERROR = b"=", b"!"  # the first byte of the reply of a program
TRY_S: Final = 30
MOST_ERROR: Final = 2000  # characters of the reason of a failed step
MOST_ACTION_MS: Final = 30_000  # for an action of Playwright; less in a shorter step
_ERROR = re.compile(r"^(FATAL ERROR|\S*Error\b|\S+: error)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class CallerCode:
    """Runs code of callers in the languages of the operator, isolated from this machine."""

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._data_dir = Path(settings["DATA_DIR"]).absolute()
        #: Those that the operator lists.
        self.languages = parse_languages(settings.getlist("INTERACT_CODE"))
        self._working: set[str] = set()
        self._trials: dict[str, asyncio.Task[str | None]] = {}

    async def why_off(self, language: str) -> str | None:
        """Return why no code in a language runs, as a part of a sentence; None if it does.

        The first call for a language tries whether this machine can isolate it, for all that
        come meanwhile. After a failure the next one tries again, so that a repair needs no
        restart.
        """
        if language not in self.languages:
            has = (
                f"has only {', '.join(self.languages)}"
                if self.languages
                else "has none"
            )
            listed = variable("INTERACT_CODE")
            return f"the operator lists the languages in {listed}, which {has}"
        if language in self._working:
            return None
        if (trial := self._trials.get(language)) is None:
            trial = asyncio.ensure_future(self._why_not_isolated(language))
            self._trials[language] = trial
            trial.add_done_callback(lambda _: self._trials.pop(language))
        why = await asyncio.shield(trial)
        if why is None:
            self._working.add(language)
            return None
        listed = variable("INTERACT_CODE")
        return f"{listed} lists it, but it cannot be isolated here: {why}"

    async def _why_not_isolated(self, language: str) -> str | None:
        if (why := why_no_program()) is not None:
            return why
        program = Program()
        try:
            async with asyncio.timeout(TRY_S):
                await program.run(language, self._data_dir, None, {}, TRY_S)
        except TimeoutError:
            return f"its trial took longer than {TRY_S} s"
        except (FilterUnavailable, OSError) as error:
            return str(error)
        if program.exit_code == DONE and program.excess is None:
            return None
        said = program.excess or program.stderr.text.strip()
        return f"{said.splitlines()[-1] if said else 'its trial failed'} (see docs/how-to/browser.md)"

    async def run(
        self, session: RunningSession, step: Step, outcome: StepOutcome
    ) -> None:
        """Do a step by code in the page of a session.

        What it prints is kept after a failure, and after a cancel.
        """
        request = {
            "code": step.code,
            "endpoint": ENDPOINT,
            "target": session.target_id,
            # An action fails, and says why, before the whole step is killed.
            "timeout_ms": min(MOST_ACTION_MS, step.timeout_s * 500),
        }
        program = Program()
        pool = ConverterPool.shared(self._settings)
        home = session.page.running.home
        try:
            async with browser_socket(session, pool, home) as path:
                await program.run(
                    step.language, self._data_dir, path, request, step.timeout_s
                )
            outcome.result, outcome.error = _result_of(program)
        except (FilterUnavailable, OSError) as error:
            logger.error("a program of a caller could not be run: %s", error)
            outcome.error = "The program could not be run on this machine."
        finally:
            outcome.stdout, outcome.stderr = program.stdout.text, program.stderr.text
            outcome.is_cut = program.stdout.is_cut or program.stderr.is_cut
        outcome.exit_code = DONE if outcome.error is None else FAILED


def _result_of(program: Program) -> tuple[str | None, str | None]:
    """Return the result and the error of a program that has ended."""
    if program.excess is not None:
        return None, program.excess
    kind, text = program.reply[:1], program.reply[1:].decode("utf-8", "replace")
    if kind == RESULT:
        return text, None
    if kind == ERROR:
        return None, _reason(text)
    if program.exit_code == DONE:  # it has ended itself
        return None, None
    lines = [line for line in program.stderr.text.splitlines() if _ERROR.search(line)]
    said = lines[-1] if lines else ""
    reason = f"The program ended with the exit code {program.exit_code}. {said}"
    return None, _reason(reason.strip())


def _reason(text: str) -> str:
    text = _COLOURS.sub("", text)
    return text if len(text) <= MOST_ERROR else f"{text[:MOST_ERROR]}…"
