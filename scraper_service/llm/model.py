"""What a language model is to the service, whoever answers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen
from scrapy.utils.misc import load_object

from scraper_service.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings


MAX_TEXT = 1_000_000  # characters of a page that are read
CHARACTERS_PER_TOKEN = 4


class ModelError(ServiceError):
    """A model gave no answer that can be used; ``reason`` is a phrase for the caller.

    It names no key and no address.
    """

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


@frozen(kw_only=True)
class ModelAnswer:
    """What a model said.

    ``value`` is the JSON that was asked for, valid by its schema but that null stands
    for what was not found; None where plain ``text`` was asked for. ``tokens`` are all
    that were used, by the server's count where it has one. ``missing`` are JSON
    pointers of required values that are null. ``warnings`` are sentences for the
    caller.
    """

    value: Any = None
    text: str = ""
    tokens: int = 0
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class LanguageModel(Protocol):
    """What the setting ``LANGUAGE_MODEL`` names; made by its ``from_settings``."""

    async def ask(
        self,
        *,
        task: str,
        data: str | None,
        schema: Mapping[str, Any] | None,
        deadline_s: float,
        account: str,
        job_id: str | None = None,
    ) -> ModelAnswer:
        """Return what the model makes of ``data`` by ``task``.

        ``task`` says what to do, in words of ours and of the caller; ``data`` is text
        of strangers, which the model is never to obey. With ``schema`` (any JSON
        schema of a caller, or ``{"type": "object"}`` for JSON of any shape) the answer
        has a value, else text. It comes within ``deadline_s`` seconds. ``account`` is
        the id of the key or team whose tokens are counted, ``job_id`` that of its job;
        with an empty ``account`` only the cap of a page holds.

        Raises :exc:`ModelError`, and :exc:`~scraper_service.errors.SchemaRefused`.
        """
        ...

    async def check(self) -> str:
        """Return a phrase about the model that answers; raise :exc:`ModelError`."""
        ...


def text_limit(settings: BaseSettings) -> int:
    """Return how many characters of a page a model may be given."""
    tokens = settings.getint("LLM_TOKENS_PER_PAGE")
    return min(MAX_TEXT, CHARACTERS_PER_TOKEN * tokens) if tokens else MAX_TEXT


def language_model(settings: BaseSettings) -> LanguageModel | None:
    """Return the one model of this process, None if the operator has none."""
    found: LanguageModel | None = load_object(settings["LANGUAGE_MODEL"]).from_settings(
        settings
    )
    return found
