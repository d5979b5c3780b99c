"""The features of the text blocks of a page, as rows of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.python_forms import (
    Grid,
    NameScores,
    Real,
    Reals,
    Whole,
    Wholes,
    cclass,
    cfunc,
    grid,
    log1p,
    next_page,
    reals,
    whole_zeros,
    wholes,
    zeros,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# The lines from here on are compiled.

FAR = 12  # elements around a block that are examined
REPEATED = 9  # elements around a block that may be one of many
MAX_SAME = 3  # equal texts that are counted
PROSE_WORDS = 8  # minimum words of a block of prose
PROSE_SHARE = 0.6  # minimum share of the page's prose in its text container
BIG_SHARE = 0.25  # minimum share of the page's words in a big element


@cclass
class BlockFeatures:
    """Fills the rows of a table; see ``main_content/model.py``."""

    at: dict
    out: Grid
    count: Whole
    nodes: Whole
    #: The number of elements around a block with features of their own.
    levels: Whole
    # Per block.
    node: Wholes
    words: Reals
    linked: Reals
    #: The nodes above, level after level from the nodes of the blocks themselves.
    above: Wholes
    # Per node.
    parent: Wholes
    start: Wholes
    end: Wholes
    path: Wholes
    depth: Wholes
    #: Words, words in links and words of prose inside each node.
    inside: Reals
    inside_linked: Reals
    inside_prose: Reals
    #: The words of the page, at least 1.
    total: Real

    def __init__(
        self,
        at: dict,
        levels: Whole,
        node: list,
        words: list,
        linked: list,
        parent: list,
        start: list,
        end: list,
        path: list,
        depth: list,
    ) -> None:
        self.at = at
        self.levels = levels
        self.count = len(node)
        self.nodes = len(parent)
        self.out = grid(len(at), self.count)
        self.node = wholes(node)
        self.words = reals(words)
        self.linked = reals(linked)
        self.parent = wholes(parent)
        self.parent[0] = 0
        self.start = wholes(start)
        self.end = wholes(end)
        self.path = wholes(path)
        self.depth = wholes(depth)
        self.total = max(float(sum(words)), 1.0)
        self.above = whole_zeros((levels + 1) * self.count)
        n: Whole
        for n in range(self.count):
            self.above[n] = self.node[n]
        for n in range(self.count, (levels + 1) * self.count):
            self.above[n] = self.parent[self.above[n - self.count]]

    @cfunc
    def row(self, name: str) -> Reals:
        """Return a row of the table."""
        number: Whole = self.at[name]
        return self.out[number]

    @cfunc
    def take_row(self, name: str, values: list) -> None:
        """Fill a row with values."""
        row: Reals = self.row(name)
        n: Whole
        for n in range(self.count):
            row[n] = values[n]

    @cfunc
    def tags(self, tags: list, known: dict) -> None:
        """Fill the row of the scores of an element's tag in its parent's tag.

        ``known`` has the scores of tags for each tag of a parent. The body has 0.
        """
        row: Reals = self.row("tag")
        none: dict = {}
        n: Whole
        node: Whole
        for n in range(self.count):
            node = self.node[n]
            if node:
                inside: dict = known.get(tags[self.parent[node]], none)
                row[n] = inside.get(tags[node], 0.0)

    @cfunc
    def sums_before(self, values: Reals) -> Reals:
        """Return the sum of the values before each block, and of all values."""
        sums: Reals = zeros(self.count + 1)
        n: Whole
        for n in range(self.count):
            sums[n + 1] = sums[n] + values[n]
        return sums

    @cfunc
    def sums_inside(self, values: Reals) -> Reals:
        """Return per node the sum of the values of its blocks."""
        sums: Reals = self.sums_before(values)
        found: Reals = zeros(self.nodes)
        n: Whole
        for n in range(self.nodes):
            found[n] = sums[self.end[n]] - sums[self.start[n]]
        return found

    @cfunc
    def own(self, texts: list, links: list) -> None:
        """Fill the rows of the blocks' own words."""
        text: str
        counts: dict = {}
        seen: Wholes = whole_zeros(self.count)
        log_words: Reals = self.row("words")
        density: Reals = self.row("link density")
        log_links: Reals = self.row("links")
        length: Reals = self.row("word length")
        ending: Reals = self.row("ends a sentence")
        comma: Reals = self.row("commas")
        sentence: Reals = self.row("sentences")
        same_before: Reals = self.row("same before")
        same_behind: Reals = self.row("same behind")
        prose: Reals = self.row("sentence")
        prose_words: Reals = zeros(self.count)
        n: Whole
        of_commas: Whole
        stops: Whole
        same: Whole
        most: Whole = MAX_SAME
        least_prose: Real = PROSE_WORDS
        for n in range(self.count):
            text = texts[n]
            own: Real = self.words[n]
            least: Real = max(own, 1.0)
            log_words[n] = log1p(own)
            density[n] = self.linked[n] / least
            log_links[n] = log1p(links[n])
            length[n] = min(len(text) / least, 20.0)
            of_commas = text.count(",")
            stops = text.count(". ")
            if not text.isascii():
                of_commas += text.count("、") + text.count("،")
                stops += text.count("。")
            comma[n] = of_commas / least
            sentence[n] = log1p(stops)
            is_end = _ends_sentence(text)
            ending[n] = 1.0 if is_end else 0.0
            if own >= least_prose and is_end and self.linked[n] < 0.4 * own:
                prose[n] = 1.0
                prose_words[n] = own
            same = counts.get(text, 0)
            counts[text] = same + 1
            seen[n] = same
            same_before[n] = min(same, most)
        for n in range(self.count):
            same = counts[texts[n]]
            same_behind[n] = min(same - seen[n] - 1, most)
        self.inside = self.sums_inside(self.words)
        self.inside_linked = self.sums_inside(self.linked)
        self.inside_prose = self.sums_inside(prose_words)

    @cfunc
    def all_names(self, scores: list, kind_rows: Grid, kind_chances: Reals) -> None:
        """Fill the rows of the scores of names.

        ``kind_rows`` has a row of scores for each part of a name, a score for each group of
        page kinds. ``kind_chances`` has the chance of each group.
        """
        low: Reals = zeros(self.nodes)
        high: Reals = zeros(self.nodes)
        kind_low: Reals = zeros(self.nodes)
        kind_high: Reals = zeros(self.nodes)
        page: Whole = next_page()
        n: Whole
        for n in range(self.nodes):
            own: NameScores = scores[n]
            own.take_kind(kind_rows, kind_chances, page)
            low[n] = own.low
            high[n] = own.high
            kind_low[n] = own.kind_low
            kind_high[n] = own.kind_high
        self.names("names", low, high)
        self.names("kind names", kind_low, kind_high)

    @cfunc
    def names(self, name: str, low: Reals, high: Reals) -> None:
        """Fill the rows of the scores of names around a block.

        They are the lowest, highest and summed scores from the body, and the nearest ones.
        """
        lowest: Reals = zeros(self.nodes)
        highest: Reals = zeros(self.nodes)
        sums: Reals = zeros(self.nodes)
        lowest[0] = low[0]
        highest[0] = high[0]
        sums[0] = low[0] + high[0]
        n: Whole
        node: Whole
        level: Whole
        for n in range(1, self.nodes):
            node = self.parent[n]
            lowest[n] = min(low[n], lowest[node])
            highest[n] = max(high[n], highest[node])
            sums[n] = sums[node] + low[n] + high[n]
        self.around(f"{name} low", lowest, 0)
        self.around(f"{name} high", highest, 0)
        self.around(f"{name} sum", sums, 0)
        for level in range(self.levels):
            self.around(f"{name} low {level}", low, level)
            self.around(f"{name} high {level}", high, level)
        self.around(f"{name} low far", lowest, self.levels)
        self.around(f"{name} high far", highest, self.levels)

    @cfunc
    def around(self, name: str, values: Reals, level: Whole) -> None:
        """Fill a row with the values of the nodes ``level`` above the blocks' nodes."""
        row: Reals = self.row(name)
        start: Whole = level * self.count
        n: Whole
        for n in range(self.count):
            row[n] = values[self.above[start + n]]

    @cfunc
    def containers(self) -> None:
        """Fill the rows of the elements around a block."""
        share: Reals = zeros(self.nodes)
        density: Reals = zeros(self.nodes)
        prose: Reals = zeros(self.nodes)
        blocks: Reals = zeros(self.nodes)
        n: Whole
        node: Whole
        level: Whole
        for n in range(self.nodes):
            least: Real = max(self.inside[n], 1.0)
            share[n] = self.inside[n] / self.total
            density[n] = self.inside_linked[n] / least
            prose[n] = self.inside_prose[n] / least
            blocks[n] = log1p(self.end[n] - self.start[n])
        for level in range(self.levels):
            self.around(f"share {level}", share, level)
            self.around(f"density {level}", density, level)
            self.around(f"prose {level}", prose, level)
            self.around(f"blocks {level}", blocks, level)
        big: Reals = self.row("big share")
        dense: Reals = self.row("big density")
        distance: Reals = self.row("big distance")
        far: Whole = FAR
        big_words: Real = BIG_SHARE * self.total
        for n in range(self.count):
            node = self.node[n]
            big[n] = dense[n] = distance[n] = 0.0
            for level in range(far):
                if self.inside[node] >= big_words or node == 0:
                    big[n] = self.inside[node] / self.total
                    dense[n] = density[node]
                    distance[n] = level
                    break
                node = self.parent[node]

    @cfunc
    def repetitions(self) -> None:
        """Fill the rows of the most repeated element around a block: a card or row."""
        repeated: Wholes = self.alike()
        alike: Reals = self.row("alike")
        words: Reals = self.row("item words")
        density: Reals = self.row("item density")
        prose: Reals = self.row("item prose")
        share: Reals = self.row("items share")
        siblings: Reals = self.row("own siblings")
        n: Whole
        node: Whole
        item: Whole
        best: Whole
        level: Whole
        levels: Whole = REPEATED
        for n in range(self.count):
            node = item = self.node[n]
            siblings[n] = log1p(repeated[node])
            best = 1
            for level in range(levels):  # noqa: B007  # a number of C
                if repeated[node] > best:
                    best = repeated[node]
                    item = node
                node = self.parent[node]
            alike[n] = log1p(best)
            words[n] = log1p(self.inside[item])
            least: Real = max(self.inside[item], 1.0)
            density[n] = self.inside_linked[item] / least
            prose[n] = self.inside_prose[item] / least
            share[n] = self.inside[self.parent[item]] / self.total

    @cfunc
    def alike(self) -> Wholes:
        """Return per node the number of its parent's children with the same path.

        The nodes of one path that share a parent follow each other.
        """
        first: Wholes = wholes([-1] * (self.nodes + 1))
        of_first: Wholes = whole_zeros(self.nodes)
        counts: Wholes = whole_zeros(self.nodes)
        n: Whole
        path: Whole
        for n in range(self.nodes):
            path = self.path[n]
            if first[path] < 0 or self.parent[first[path]] != self.parent[n]:
                first[path] = n
            of_first[n] = first[path]
            counts[first[path]] += 1
        for n in range(self.nodes):
            of_first[n] = counts[of_first[n]]
        return of_first

    @cfunc
    def heading(self, headings: list) -> None:
        """Fill the rows of the innermost element around a block and the first h1."""
        depth: Reals = self.row("depth")
        beside: Reals = self.row("depth beside h1")
        shared: Reals = self.row("h1 shared")
        n: Whole
        node: Whole
        number: Whole
        for n in range(self.count):
            depth[n] = self.depth[self.node[n]]
            shared[n] = 0.0
        for number in headings:
            if self.end[number] > self.start[number]:
                chain: list = [number]
                node = number
                while node > 0:
                    node = self.parent[node]
                    chain.append(node)
                for node in reversed(chain):
                    for n in range(self.start[node], self.end[node]):
                        shared[n] = self.depth[node]
                break
        for n in range(self.count):
            beside[n] = depth[n] - shared[n]

    @cfunc
    def positions(self) -> None:
        """Fill the rows of a block's position on the page."""
        position: Reals = self.row("position")
        from_start: Reals = self.row("number")
        from_end: Reals = self.row("number from end")
        prose: Reals = self.row("prose before")
        from_sentence: Reals = self.row("from first sentence")
        sentence: Reals = self.row("sentence")
        prose_total: Real = max(self.inside_prose[0], 1.0)
        count: Real = self.count
        prose_words: Real = 0.0
        n: Whole
        first: Whole = 0
        for n in range(self.count):
            if sentence[n] > 0:
                first = n
                break
        for n in range(self.count):
            index: Real = n
            position[n] = index / count
            from_start[n] = min(index, 200.0)
            from_end[n] = min(count - index, 200.0)
            prose[n] = prose_words / prose_total
            if sentence[n] > 0:
                prose_words += self.words[n]
            from_sentence[n] = min(max(index - first, -99.0), 99.0)
        self.text_container(prose_total)

    @cfunc
    def text_container(self, prose_total: Real) -> None:
        """Fill the rows of the deepest element with most of the page's prose."""
        in_text: Reals = self.row("in text")
        from_text: Reals = self.row("from text")
        share: Reals = self.row("text share")
        holder: Whole = 0
        deepest: Whole = -1
        n: Whole
        least: Real = PROSE_SHARE * prose_total
        for n in range(self.nodes):
            if self.inside_prose[n] >= least and self.depth[n] > deepest:
                holder = n
                deepest = self.depth[n]
        start: Whole = self.start[holder]
        end: Whole = self.end[holder]
        own: Real = self.inside[holder] / self.total
        for n in range(self.count):
            in_text[n] = 1.0 if start <= n < end else 0.0
            from_text[n] = n - start if n < start else max(n - end, 0)
            share[n] = own

    @cfunc
    def last_heading(self) -> None:
        """Fill the rows of the last heading before a block."""
        headed: Reals = self.row("in heading")
        first: Reals = self.row("first words")
        phrase: Reals = self.row("phrase")
        low: Reals = self.row("names low")
        words: Reals = self.row("heading words")
        of_phrase: Reals = self.row("heading phrase")
        distance: Reals = self.row("heading distance")
        names: Reals = self.row("heading names")
        n: Whole
        last: Whole = -1
        for n in range(self.count):
            if headed[n] > 0:
                last = n
            if last < 0:
                words[n] = of_phrase[n] = names[n] = 0.0
                distance[n] = 99.0
            else:
                words[n] = first[last]
                of_phrase[n] = phrase[last]
                distance[n] = min(n - last, 99)
                names[n] = low[last]

    @cfunc
    def groups(self) -> Wholes:
        """Fill the rows of the blocks whose nodes share a path; return these paths."""
        paths: Wholes = whole_zeros(self.count)
        blocks: Reals = zeros(self.nodes + 1)
        words: Reals = zeros(self.nodes + 1)
        linked: Reals = zeros(self.nodes + 1)
        prose: Reals = zeros(self.nodes + 1)
        sentence: Reals = self.row("sentence")
        log_blocks: Reals = self.row("group blocks")
        log_words: Reals = self.row("group words")
        share: Reals = self.row("group share")
        density: Reals = self.row("group density")
        sentences: Reals = self.row("group sentences")
        n: Whole
        group: Whole
        for n in range(self.count):
            group = paths[n] = self.path[self.node[n]]
            blocks[group] += 1.0
            words[group] += self.words[n]
            linked[group] += self.linked[n]
            prose[group] += sentence[n]
        for n in range(self.count):
            group = paths[n]
            log_blocks[n] = log1p(blocks[group])
            log_words[n] = log1p(words[group] / blocks[group])
            share[n] = words[group] / self.total
            density[n] = linked[group] / max(words[group], 1.0)
            sentences[n] = prose[group] / blocks[group]
        return paths

    @cfunc
    def shifted(self, name: str) -> None:
        """Fill the rows of the values of the blocks before and after a block."""
        values: Reals = self.row(name)
        before: Reals = self.row(f"{name} before")
        behind: Reals = self.row(f"{name} behind")
        n: Whole
        for n in range(self.count):
            before[n] = values[n - 1] if n > 0 else 0.0
            behind[n] = values[n + 1] if n + 1 < self.count else 0.0

    @cfunc
    def spread(self, name: str, reach: Whole) -> None:
        """Fill the row of the mean of up to ``reach`` blocks before and after."""
        values: Reals = self.row(name)
        row: Reals = self.row(f"{name} around {reach}")
        sums: Reals = self.sums_before(values)
        n: Whole
        low: Whole
        high: Whole
        for n in range(self.count):
            low = max(n - reach, 0)
            high = min(n + reach + 1, self.count)
            row[n] = (sums[high] - sums[low]) / (high - low)

    @cfunc
    def places(self, places: list, bits: list) -> None:
        """Fill the row of each bit; ``bits`` has pairs of a row's name and a bit."""
        numbers: Wholes = wholes(places)
        n: Whole
        bit: Whole
        for name, bit in bits:
            row: Reals = self.row(name)
            for n in range(self.count):
                row[n] = 1.0 if numbers[n] & bit else 0.0

    @cfunc
    def constant(self, name: str, value: Real) -> None:
        """Fill a row with one value."""
        row: Reals = self.row(name)
        n: Whole
        for n in range(self.count):
            row[n] = value

    @cfunc
    def largest(self, name: str) -> Real:
        """Return the largest value of a row; the row has no value below 0."""
        row: Reals = self.row(name)
        n: Whole
        most: Real = 0.0
        for n in range(self.count):
            most = max(most, row[n])
        return most

    @cfunc
    def share_of(self, name: str) -> Real:
        """Return the share of the page's words in blocks where a row is 1."""
        row: Reals = self.row(name)
        n: Whole
        words: Real = 0.0
        for n in range(self.count):
            words += row[n] * self.words[n]
        return words / self.total


def feature_rows(
    at: dict,
    levels: int,
    nodes: Any,
    blocks: Any,
    *,
    tags: dict,
    kind_rows: Grid,
    kind_chances: list,
    bits: list,
    headings: list,
    articles: int,
    shifted: Sequence[str],
    spread: Sequence[str],
    reaches: Sequence[int],
) -> Any:
    """Return the features of all blocks as rows; ``at`` has the number of each row.

    Return the words and nodes of the blocks, the parents, starts and ends of the nodes, and
    the path of each block's node, too. The rows of page kinds remain 0.
    """
    made: BlockFeatures = BlockFeatures(
        at,
        levels,
        blocks.node,
        blocks.words,
        blocks.linked,
        nodes.parent,
        nodes.start,
        nodes.end,
        nodes.path,
        nodes.depth,
    )
    made.own(blocks.text, blocks.links)
    made.take_row("first words", blocks.first)
    made.take_row("phrase", blocks.phrase)
    made.take_row("inline names", blocks.inline_low)
    made.tags(nodes.tag, tags)
    made.all_names(nodes.scores, kind_rows, reals(kind_chances))
    made.places(blocks.places, bits)
    made.containers()
    made.repetitions()
    made.heading(headings)
    made.positions()
    made.last_heading()
    paths: Wholes = made.groups()
    for name in shifted:
        made.shifted(name)
    for name in spread:
        for reach in reaches:
            made.spread(name, reach)
    made.constant("page words", log1p(made.total))
    made.constant("page blocks", log1p(made.count))
    made.constant("page density", made.inside_linked[0] / made.total)
    made.constant("page prose", made.inside_prose[0] / made.total)
    made.constant("page items", made.largest("items share"))
    made.constant("page articles", log1p(articles))
    made.constant("page has h1", 1.0 if headings else 0.0)
    made.constant("share of main", made.share_of("in main"))
    made.constant("share of article", made.share_of("in article"))
    return (
        made.out,
        made.words,
        made.node,
        made.parent,
        made.start,
        made.end,
        paths,
    )


@cfunc
def _ends_sentence(text: str) -> bool:
    number: Whole = len(text) - 1
    while number >= 0 and text[number].isspace():
        number -= 1
    if number < 0:
        return False
    last = text[number]
    if last in '"”':
        return number > 0 and text[number - 1] == "."
    return last in ".!?。！？…:।؟"  # noqa: RUF001
