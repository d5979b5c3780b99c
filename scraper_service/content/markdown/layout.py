"""Lays out blocks of Markdown in lines, with the prefixes of lists and quotations."""

from __future__ import annotations

from attrs import define, field


@define
class ListLevel:
    """A list that is being written."""

    #: Whether items follow each other without blank lines.
    tight: bool
    #: The number of the next item, None in a bulleted list.
    number: int | None
    #: The bullet, or the sign behind the number.
    bullet: str
    #: How many levels surround the list.
    depth: int
    #: How many items were written.
    count: int = 0

    @property
    def mark(self) -> str:
        """The marker of the next item, with a space."""
        return (
            f"{self.bullet} " if self.number is None else f"{self.number}{self.bullet} "
        )


@define
class Level:
    """A container around blocks: a list item, a quotation, a definition."""

    #: The prefix of the first line.
    first: str
    #: The prefix of all other lines.
    rest: str
    #: Whether a line was written in it.
    used: bool = False
    #: The list of a list item.
    in_list: ListLevel | None = None
    #: Whether this is a definition.
    definition: bool = False
    #: The ``rest`` of all levels around, and of this level.
    path: str = ""


@define
class Layout:
    """Lines of Markdown, with a blank line between blocks that do not belong together."""

    lines: list[str] = field(factory=list)
    levels: list[Level] = field(factory=list)
    #: The list that ended last, and the line behind it.
    ended: ListLevel | None = None
    ended_at: int = -1
    #: The line behind a term, where a definition may follow.
    term_at: int = -1
    #: Whether the next block follows without a blank line.
    joins: bool = False

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines)

    def push(self, level: Level) -> None:
        """Enter ``level``."""
        level.path = (self.levels[-1].path if self.levels else "") + level.rest
        self.levels.append(level)

    def paragraph(self, text: str) -> None:
        """Add a paragraph, which may be a definition of the term before it."""
        level = self.levels[-1] if self.levels else None
        if level is not None and level.definition and not level.used:
            follows = self.term_at == len(self.lines)
            level.used = True
            self.joins = self.joins or follows
            self.add(f": {text}" if follows else text)
            self.term_at = len(self.lines)
        else:
            self.add(text)

    def add_once(self, text: str) -> None:
        """Add a block unless it equals the previous block: a copy for smaller screens."""
        if self.levels or self.lines[-1:] != [text]:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a block inside the current levels."""
        lines, levels = self.lines, self.levels
        if not levels:
            if lines and not self.joins:
                lines.append("")
            self.joins = False
            lines.append(text)
            return
        count = len(levels)
        unused = count
        while unused and not levels[unused - 1].used:
            unused -= 1
        above = levels[unused - 1].path if unused else ""
        if lines and not self.joins and not self._is_tight(unused):
            lines.append(above.rstrip())
        self.joins = False
        start = above + "".join([level.first for level in levels[unused:]])
        for level in levels[unused:]:
            level.used = True
            if level.in_list is not None:
                level.in_list.count += 1
        if "\n" not in text:
            lines.append(start + text)
            return
        rest = levels[-1].path
        first, *others = text.split("\n")
        lines.append(start + first)
        lines += [rest + line if line else rest.rstrip() for line in others]

    def _is_tight(self, unused: int) -> bool:
        """Return True if the beginning item needs no blank line before it."""
        if unused == len(self.levels):
            return False
        own = self.levels[unused].in_list
        if own is None or not own.tight:
            return False
        if own.count:
            return True
        inside = any(level.in_list for level in self.levels[:unused])
        # A list that begins with another number cannot interrupt a paragraph.
        return inside and own.number in {None, 1}

    def begin_list(self, *, tight: bool, number: int | None) -> ListLevel:
        """Return a new list, with another marker than a list that has just ended."""
        first, second = ("-", "*") if number is None else (".", ")")
        before = self._just_ended()
        taken = before is not None and before.bullet == first
        return ListLevel(tight, number, second if taken else first, len(self.levels))

    def end_list(self, level: ListLevel) -> None:
        """Remember the list, as another list may follow it."""
        if level.count:
            self.ended, self.ended_at = level, len(self.lines)

    def continue_list(self) -> ListLevel:
        """Return the list that just ended, or a new list, for items outside of lists."""
        return self._just_ended() or self.begin_list(tight=True, number=None)

    def _just_ended(self) -> ListLevel | None:
        ended = self.ended
        if ended is None or self.ended_at != len(self.lines):
            return None
        return ended if ended.depth == len(self.levels) else None
