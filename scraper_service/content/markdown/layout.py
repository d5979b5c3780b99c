"""Blocks of Markdown under each other, with the prefixes of what they are inside of."""

from __future__ import annotations

from attrs import define, field


@define
class ListLevel:
    """One list. ``number`` is that of the next item, None in a bulleted list."""

    tight: bool
    number: int | None
    bullet: str
    depth: int
    count: int = 0

    @property
    def mark(self) -> str:
        """What the next item begins with."""
        return (
            f"{self.bullet} " if self.number is None else f"{self.number}{self.bullet} "
        )


@define
class Level:
    """One container around a block: a list item, a quotation, a definition.

    ``first`` stands before its first line, ``rest`` before all others; ``path`` is
    the ``rest`` of this and of all levels around.
    """

    first: str
    rest: str
    used: bool = False
    in_list: ListLevel | None = None
    definition: bool = False
    path: str = ""


@define
class Layout:
    """Lines of Markdown; a blank one between blocks, unless these belong together."""

    lines: list[str] = field(factory=list)
    levels: list[Level] = field(factory=list)
    ended: ListLevel | None = None  # the last list, and where it ended
    ended_at: int = -1
    term_at: int = -1  # where a term ended that a definition may follow
    joins: bool = False  # whether the next block follows without a blank line

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines)

    def push(self, level: Level) -> None:
        """Go into ``level``."""
        level.path = (self.levels[-1].path if self.levels else "") + level.rest
        self.levels.append(level)

    def paragraph(self, text: str) -> None:
        """Place a paragraph, which may be a definition of the term before it."""
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
        """Place a block, unless it is that before it: a copy for smaller screens."""
        if self.levels or self.lines[-1:] != [text]:
            self.add(text)

    def add(self, text: str) -> None:
        """Place one block below the levels around it."""
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
        """Tell whether the item that begins follows without a blank line."""
        if unused == len(self.levels):
            return False
        own = self.levels[unused].in_list
        if own is None or not own.tight:
            return False
        if own.count:
            return True
        inside = any(level.in_list for level in self.levels[:unused])
        return inside and own.number in {None, 1}  # no other interrupts a paragraph

    def begin_list(self, *, tight: bool, number: int | None) -> ListLevel:
        """Return a list with a mark that keeps it apart from one just before it."""
        first, second = ("-", "*") if number is None else (".", ")")
        before = self._just_ended()
        taken = before is not None and before.bullet == first
        return ListLevel(tight, number, second if taken else first, len(self.levels))

    def end_list(self, level: ListLevel) -> None:
        """Remember the list, for what may follow it."""
        if level.count:
            self.ended, self.ended_at = level, len(self.lines)

    def continued_list(self) -> ListLevel:
        """Return the list just ended, or a new one: for items outside of any list."""
        return self._just_ended() or self.begin_list(tight=True, number=None)

    def _just_ended(self) -> ListLevel | None:
        ended = self.ended
        if ended is None or self.ended_at != len(self.lines):
            return None
        return ended if ended.depth == len(self.levels) else None
