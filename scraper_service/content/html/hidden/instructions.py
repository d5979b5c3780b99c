"""Texts that speak to a language model instead of to a reader."""

from __future__ import annotations

import re

MAX_EXCERPT = 80  # characters

# One of these is in every text that the expression finds.
_SIGNS = (
    "instruct",
    "prompt",
    " ai ",
    "assistant",
    "llm",
    "language model",
    "anweisung",
    "instruc",
    "istruzioni",
    "指示",
    "指令",
    "chatgpt",
    "claude",
    "gemini",
    "system:",
)
_SPEECH = re.compile(
    r"(?:ignore|disregard|forget|override|bypass)\s+(?:\w+\s+){0,4}"
    r"(?:instructions?|prompts?|rules|directions|context|guidelines|messages)"
    r"|(?:system|developer)\s+(?:prompt|message|instructions?)\s*[:\]]"
    r"|\byou are (?:now )?(?:an? )?(?:\w+\s+){0,3}(?:ai|assistant|language model|llm|chatbot|agent)\b"
    r"|(?:attention|note|instructions?|message|important)\b[^.!?]{0,30}\b(?:to|for)\b[^.!?]{0,20}"
    r"\b(?:ai|llms?|language models?|chatgpt|claude|gemini|agents?|assistants?|crawlers)\b"
    r"|(?:if you are|as) an? (?:ai|llm|large language model|language model|ai \w+)\b"
    r"|(?:do not|don't|never) (?:tell|mention|reveal|inform)\b[^.!?]{0,30}\b(?:user|human|anyone)"
    r"|(?:new|updated|following|hidden|secret) instructions?\s*:"
    r"|(?:ignorier|missachte|vergiss)\w*\s+(?:\w+\s+){0,4}(?:anweisung|vorgab|regeln)"
    r"|(?:ignore[zr]?|oublie[zr]?)\s+(?:\w+\s+){0,4}(?:instructions|consignes)"
    r"|(?:ignora|olvida|descarta)\w*\s+(?:\w+\s+){0,4}(?:instrucciones|instruções|istruzioni)"
    r"|(?:忽略|无视|無視|忘记)[^。]{0,12}(?:指令|指示|提示)|(?:指示|命令)[^。]{0,8}無視",
    re.IGNORECASE,
)


def instruction_in(text: str) -> str | None:
    """Return an excerpt of ``text`` that reads like instructions to a language model."""
    lower = f" {text} ".lower()
    if not any(sign in lower for sign in _SIGNS):
        return None
    match = _SPEECH.search(text)
    if not match:
        return None
    excerpt = text[match.start() : match.start() + MAX_EXCERPT]
    return " ".join(excerpt.split()).replace('"', "'")
