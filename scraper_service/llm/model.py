"""The interface of a language model, its answers and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen
from scrapy.utils.misc import load_object

from scraper_service.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings


MAX_TEXT = 1_000_000  # characters of a page given to a model
CHARACTERS_PER_TOKEN = 4


class ModelError(ServiceError):
    """Raised when a model gives no usable answer.

    ``reason`` is a phrase for the caller, without keys and URLs.
    """

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


@frozen(kw_only=True)
class ModelAnswer:
    """The answer of a model."""

    #: The requested JSON, valid by its schema except for nulls; None for a plain text.
    value: Any = None
    text: str = ""
    #: Tokens used, counted by the server if it reports a count.
    tokens: int = 0
    #: JSON pointers of required values that are null.
    missing: tuple[str, ...] = ()
    #: Sentences for the caller.
    warnings: tuple[str, ...] = ()


def member_of(answer: ModelAnswer, name: str) -> Any:
    """Return a member of the answer to a question of the service itself.

    Raises :exc:`ModelError` if the answer lacks it: unlike for a caller's schema, null is
    no value there.
    """
    value = answer.value.get(name) if isinstance(answer.value, dict) else None
    if value is None:
        raise ModelError(f"its answer has no {name}")
    return value


class LanguageModel(Protocol):
    """The interface of the class in the setting ``LANGUAGE_MODEL``.

    The class method ``from_settings`` creates instances.
    """

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
        """Return the model's answer to ``task`` about ``data``, within ``deadline_s``.

        ``task`` is the instruction: text of the service and of the caller. ``data`` is
        untrusted text, and the model must not follow instructions in it. With a
        ``schema`` the answer has a value, otherwise a text. ``schema`` is any JSON
        Schema of a caller, or ``{"type": "object"}`` for JSON of any shape. ``account``
        is the id of the key or team whose tokens are counted, ``job_id`` the id of its
        job. With an empty ``account`` only the limit per page applies.

        Raises :exc:`ModelError` and :exc:`~scraper_service.errors.SchemaRefused`.
        """
        ...

    async def check(self) -> str:
        """Test the model and return a phrase about it.

        Raises :exc:`ModelError` if it does not answer.
        """
        ...


def text_limit(settings: BaseSettings) -> int:
    """Return how many characters of a page a model may be given at most."""
    tokens = settings.getint("LLM_TOKENS_PER_PAGE")
    return min(MAX_TEXT, CHARACTERS_PER_TOKEN * tokens) if tokens else MAX_TEXT


def language_model(settings: BaseSettings) -> LanguageModel | None:
    """Return the model of this process; None if no model is configured.

    Raises :exc:`ValueError` if ``LANGUAGE_MODEL`` is no importable class.
    """
    try:
        kind = load_object(settings["LANGUAGE_MODEL"])
    except (ImportError, NameError, TypeError, ValueError) as error:
        raise ValueError(f"setting SCRAPER_LANGUAGE_MODEL: {error}") from error
    found: LanguageModel | None = kind.from_settings(settings)
    return found
