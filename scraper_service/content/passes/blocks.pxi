# The walk over the text blocks of a page.

cdef class Walk:
    """The walk of ``main_content/blocks.py``, with the same columns."""

    cdef dict tags, paths
    cdef object of_names, of_start, said, wide, no_names, together
    cdef _Document document
    cdef Py_ssize_t max_shape, max_start, wide_characters
    cdef long link, left_out, places, words, linked, links, inline_place
    cdef long around_main
    cdef double low
    cdef list run
    cdef readonly tuple nodes, blocks
    cdef readonly list ends
    cdef list element, tag, parent, start, depth, node_places, shape, path, scores, own
    cdef list node, block_words, block_linked, block_links, text, block_places
    cdef list first, phrase, inline_low
    cdef dict seen

    def __init__(self, _Element body not None, entered, of_names, of_start, said, together,
                 no_names, wide, link, left_out, max_shape, max_start, wide_characters,
                 body_places, around_main):
        self.tags, self.paths, self.seen = entered, {}, {}
        self.of_names, self.of_start, self.said = of_names, of_start, said
        self.together, self.no_names, self.wide = together, no_names, wide
        self.link, self.left_out, self.around_main = link, left_out, around_main
        self.max_shape, self.max_start = max_shape, max_start
        self.wide_characters = wide_characters
        self.document = body._doc
        self.run = []
        self.words = self.linked = self.links = self.places = 0
        self.low = 0.0
        self.ends = []
        self.element, self.tag, self.parent, self.start = [], [], [], []
        self.depth, self.node_places, self.shape, self.path = [], [], [], []
        self.scores, self.own = [], []
        self.node, self.block_words, self.block_linked = [], [], []
        self.block_links, self.text, self.block_places = [], [], []
        self.first, self.phrase, self.inline_low = [], [], []
        tag = body.tag
        self.begin(body._c_node, body, tag, -1, 0, body_places, tag, 0, no_names,
                   body.get("id"))
        self.nodes = (self.element, self.tag, self.parent, self.start, self.depth,
                      self.node_places, self.shape, self.path, self.scores,
                      self.own, self.ends)
        self.blocks = (self.node, self.block_words, self.block_linked,
                       self.block_links, self.text, self.block_places, self.first,
                       self.phrase, self.inline_low)

    cdef int begin(self, xmlNode* c_node, _Element element, tag, Py_ssize_t parent,
                   Py_ssize_t depth, long places, shape, Py_ssize_t path, scores,
                   own) except -1:
        cdef Py_ssize_t number = len(self.ends)
        cdef unicode text
        self.element.append(element)
        self.tag.append(tag)
        self.parent.append(parent)
        self.start.append(len(self.node))
        self.depth.append(depth)
        self.node_places.append(places)
        self.shape.append(shape)
        self.path.append(path)
        self.scores.append(scores)
        self.own.append(own)
        self.ends.append(0)
        text = text_at(text_from(c_node.children))
        if text is not None:
            self.take(text, places)
        self.below(c_node, number, path, depth, places)
        if self.run:
            self.flush(number, places)
        else:
            self.links, self.low = 0, 0.0
        self.ends[number] = len(self.node)
        return 0

    cdef int below(self, xmlNode* c_node, Py_ssize_t number, Py_ssize_t path,
                   Py_ssize_t depth, long places) except -1:
        cdef xmlNode* child = c_node.children
        cdef unicode text
        cdef tuple known
        cdef long place
        while child is not NULL:
            if child.type != XML_ELEMENT_NODE:
                child = child.next
                continue
            key = <size_t>child.name
            entry = self.seen.get(key)
            if entry is None:
                tag = tag_of(child)
                entry = self.seen[key] = (tag, self.tags.get(tag, -2))
            known = entry
            place = known[1]
            if place == -2:
                self.inline(child, known[0], number, path, depth, places)
            elif place != self.left_out:
                if self.run:
                    self.flush(number, self.node_places[number])
                self.links, self.low = 0, 0.0
                self.enter(child, known[0], number, path, depth, places | place)
            self.take_from(text_from(child.next), places)
            child = child.next
        return 0

    cdef int enter(self, xmlNode* c_node, tag, Py_ssize_t parent, Py_ssize_t path,
                   Py_ssize_t depth, long places) except -1:
        cdef xmlAttr* own = c_node.properties
        cdef unicode names = None, mark = None, role = None, marked = None
        cdef unicode testid = None, label = None, said
        cdef const char* name
        while own is not NULL:
            if own.ns is NULL:
                name = <const char*>own.name
                if name[0] == c"c" and strcmp(name, "class") == 0:
                    names = value_of(c_node, own)
                elif name[0] == c"i" and strcmp(name, "id") == 0:
                    mark = value_of(c_node, own)
                elif name[0] == c"i" and strcmp(name, "itemprop") == 0:
                    marked = value_of(c_node, own)
                elif name[0] == c"r" and strcmp(name, "role") == 0:
                    role = value_of(c_node, own)
                elif name[0] == c"d" and strcmp(name, "data-testid") == 0:
                    testid = value_of(c_node, own)
                elif name[0] == c"a" and strcmp(name, "aria-label") == 0:
                    label = value_of(c_node, own)
            own = own.next
        shape, scores = tag, self.no_names
        if names:
            shape = f"{tag}.{names[:self.max_shape]}"
            scores = self.of_names(names)
        said = testid or label
        if mark or marked or said:
            given = [scores] if scores is not self.no_names else []
            if mark:
                own_scores = self.of_names(mark)
                if own_scores is not self.no_names:
                    given.append(own_scores)
            if marked:
                own_scores = self.of_names(marked)
                if own_scores is not self.no_names:
                    given.append(own_scores)
            if said:
                own_scores = self.of_names(said)
                if own_scores is not self.no_names:
                    given.append(own_scores)
            if len(given) > 1:
                scores = self.together(given)
            elif given:
                scores = given[0]
        if mark or role:
            places |= <long>self.said(mark, role)
        if tag == "main" or role == "main":
            places &= ~self.around_main
        key = (path, shape)
        found = self.paths.get(key)
        if found is None:
            found = self.paths[key] = len(self.paths) + 1
        return self.begin(
            c_node, api.elementFactory(self.document, c_node), tag, parent, depth + 1,
            places, shape, found, scores, mark,
        )

    cdef int inline(self, xmlNode* c_node, tag, Py_ssize_t number, Py_ssize_t path,
                    Py_ssize_t depth, long places) except -1:
        cdef xmlAttr* own
        cdef unicode names, text
        cdef double low
        if tag == "a":
            places |= self.link
            self.links += 1
        elif tag == "br" and self.run:
            self.run.append("\n")
        own = attribute(c_node, "class")
        if own is not NULL:
            names = value_of(c_node, own)
            if names:
                low = (<tuple>self.of_names(names))[0]
                if low < self.low:
                    self.low = low
        self.take_from(text_from(c_node.children), places)
        return self.below(c_node, number, path, depth, places)

    cdef int take_from(self, xmlNode* first, long places) except -1:
        """Add the text that begins at ``first``; a blank text adds a space to a run."""
        cdef unicode text
        if first is NULL:
            return 0
        text = text_at(first)
        if text is not None:
            return self.take(text, places)
        if self.run and full_text(first):
            self.run.append(" ")
        return 0

    cdef int take(self, unicode text, long places) except -1:
        cdef long count = words_in(text)
        if len(text) > 12 * count and not PyUnicode_IS_ASCII(text):
            count = max(count, len(self.wide(text)) // self.wide_characters)
        self.run.append(text)
        self.words += count
        self.places = places
        if places & self.link:
            self.linked += count
        return 0

    cdef int flush(self, Py_ssize_t number, long places) except -1:
        cdef list run = self.run
        cdef unicode text = run[0] if len(run) == 1 else "".join(run)
        cdef tuple start = self.of_start(text[:self.max_start])
        cdef long links = self.links
        if not links:
            links = self.linked > 0
        if self.linked == self.words:
            places |= self.places & self.link
        self.node.append(number)
        self.block_words.append(self.words)
        self.block_linked.append(self.linked)
        self.block_links.append(links)
        self.text.append(text)
        self.block_places.append(places)
        self.first.append(start[0])
        self.phrase.append(start[1])
        self.inline_low.append(self.low)
        self.run = []
        self.words = self.linked = self.links = 0
        self.low = 0.0
        return 0
