"""Lets the language model judge changes by the goal of a monitor.

The judgment never changes the state of a page: it decides who gets a message.
"""

from __future__ import annotations

import time
from typing import Any

from attrs import define

from scraper_service.llm.model import LanguageModel, ModelError, member_of

ANSWER_S = 60.0
MAX_DATA = 20_000  # characters of a change
PRICE = 1  # credits of a judgment
TASK = """Somebody watches the page {url} with this goal: {goal}
The text is what has changed on the page. Say whether the change matters for the goal.
Answer with JSON."""
RESULT_TASK = """Somebody watches the web with this goal: {goal}
The text is a new search result. Say whether it matters for the goal. Answer with JSON."""
_CHANGE = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["added", "removed", "changed"]},
        "before": {"type": ["string", "null"]},
        "after": {"type": ["string", "null"]},
        "reason": {"type": "string"},
    },
    "required": ["type", "reason"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "meaningful": {"type": "boolean"},
        "confidence": {"type": "string", "enum": ["high", "medium", "low"]},
        "reason": {"type": "string"},
        "meaningfulChanges": {"type": "array", "items": _CHANGE},
    },
    "required": ["meaningful", "confidence", "reason"],
}


@define
class ChangeJudge:
    """Judges the changes of one target in one check.

    Without a model or a goal it judges nothing. After a failure of the model it judges no
    further change of the target: :attr:`failure` says why.
    """

    model: LanguageModel | None
    goal: str | None
    account: str
    job_id: str
    until: float
    #: The number of judgments.
    judged: int = 0
    #: Why the model gave no judgment.
    failure: str | None = None

    async def of_change(self, url: str, change: str) -> dict[str, Any] | None:
        """Return the judgment on a change as JSON values, None without one."""
        return await self._ask(TASK, url, change)

    async def of_result(self, url: str, result: str) -> dict[str, Any] | None:
        """Return the judgment on a search result as JSON values, None without one."""
        return await self._ask(RESULT_TASK, url, result)

    async def _ask(self, task: str, url: str, data: str) -> dict[str, Any] | None:
        if self.model is None or self.goal is None or self.failure is not None:
            return None
        try:
            answer = await self.model.ask(
                task=task.format(url=url, goal=self.goal),
                data=data[:MAX_DATA],
                schema=SCHEMA,
                deadline_s=max(1.0, min(ANSWER_S, self.until - time.monotonic())),
                account=self.account,
                job_id=self.job_id,
            )
            member_of(answer, "meaningful")
        except ModelError as error:
            self.failure = f"The language model gave no judgment: {error.reason}."
            return None
        self.judged += 1
        return _judgment(answer.value)


def _judgment(value: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with exactly the keys of a judgment."""
    confidence = value.get("confidence")
    changes = [
        {
            "type": each.get("type") if each.get("type") in _KINDS else "changed",
            "before": each.get("before"),
            "after": each.get("after"),
            "reason": each.get("reason") or "",
        }
        for each in value.get("meaningfulChanges") or []
        if isinstance(each, dict)
    ]
    return {
        "meaningful": value["meaningful"],
        "confidence": confidence if confidence in _CONFIDENCES else "low",
        "reason": value.get("reason") or "",
        "meaningfulChanges": changes,
    }


_KINDS = ("added", "removed", "changed")
_CONFIDENCES = ("high", "medium", "low")
