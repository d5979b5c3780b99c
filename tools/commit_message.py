"""Checks the message of a commit, as a hook of Git: ``commit_message.py FILE``.

``commit_message.py FROM..TO`` checks the commits of a range.
"""

from __future__ import annotations

import re
import subprocess
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


def messages(named: str) -> list[str]:
    """Return the message in a file, or those of a range of commits."""
    if ".." not in named:
        return [Path(named).read_text(encoding="utf-8")]
    command = ("git", "log", "--no-merges", "-z", "--format=%B", named)
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return [message for message in found.split("\0") if message]


if __name__ == "__main__":
    [_, source] = sys.argv
    lines = {message.partition("\n")[0]: fault(message) for message in messages(source)}
    wrong = [f"{line}: {why}" for line, why in lines.items() if why]
    sys.exit("\n".join([*wrong, "see CONTRIBUTING.md, Commits"]) if wrong else None)
