"""Checks the message of a commit, as a hook of Git: ``commit_message.py FILE``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SUBJECT = re.compile(r"[\w./-]+(?:[ ,]+[\w./-]+){0,3}: [A-Z].*[^.\s]")
WRITTEN_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
MAX_LENGTH = 72


def fault(message: str) -> str | None:
    """Return what is wrong with a message, or None."""
    subject, _, rest = message.partition("\n")
    if subject.startswith(WRITTEN_BY_GIT):
        return None
    if len(subject) > MAX_LENGTH:
        return f"the subject has {len(subject)} characters; {MAX_LENGTH} are allowed"
    if not SUBJECT.fullmatch(subject):
        return "the subject must be `area: Imperative`, without a full stop"
    if rest and not rest.startswith("\n"):
        return "the second line must be empty"
    return None


if __name__ == "__main__":
    [_, file] = sys.argv
    wrong = fault(Path(file).read_text(encoding="utf-8"))
    sys.exit(wrong and f"{wrong}: see CONTRIBUTING.md, Commits")
