# The walk of the Markdown writer.

cdef enum:
    MAX_ROLE_NAMES = 300


def content(self, _Element element not None, Py_ssize_t max_depth):
    """Write the children of an element; see ``markdown/spans.py``."""
    cdef dict writers = self.writers
    written(self, self.run, writers, writers["div"], self.names, element._doc,
            element._c_node, self.depth, max_depth)


cdef int written(self, list run, dict writers, block, dict names, _Document document,
                 xmlNode* node, Py_ssize_t depth, Py_ssize_t max_depth) except -1:
    cdef xmlNode* child = node.children
    add_inline(self, run, text_from(child))
    if depth >= max_depth:
        parts = []
        while child is not NULL:
            if child.type == XML_ELEMENT_NODE:
                all_texts(child, parts)
            child = child.next
        if parts:
            self.text(" ".join(parts))
        return 0
    while child is not NULL:
        if child.type == XML_ELEMENT_NODE:
            key = <size_t>child.name
            write = names.get(key)
            if write is None:
                write = names[key] = writers.get(tag_of(child), False)
            if write is False:
                written(self, run, writers, block, names, document, child, depth + 1,
                        max_depth)
            elif write is block and has_no_role(self, child):
                if run:
                    self.flush()
                written(self, run, writers, block, names, document, child, depth + 1,
                        max_depth)
                if run:
                    self.flush()
            else:
                self.depth = depth + 1
                write(self, api.elementFactory(document, child))
                self.depth = depth
            add_inline(self, run, text_from(child.next))
        child = child.next
    return 0


cdef bint has_no_role(self, xmlNode* node) except -1:
    """Return True if the class of a block has no role; see ``html/elements.py``."""
    cdef xmlAttr* own = attribute(node, "class")
    if own is NULL or self.flat is not None:
        return True
    return self.role_of(value_of(node, own)[:MAX_ROLE_NAMES]) is None


cdef int add_inline(self, list run, xmlNode* first) except -1:
    """Add a text to the run; the method ``text`` handles all but plain text."""
    cdef unicode text
    if first is NULL:
        return 0
    if text_from(first.next) is NULL and first.content is not NULL:
        if is_blank(<const char*>first.content):
            if first.content[0] and run:
                run.append(" ")
            return 0
        if is_plain(<const char*>first.content):
            run.append(decoded(<const char*>first.content))
            return 0
    text = full_text(first)
    if text:
        self.text(text)
    return 0


cdef inline bint is_plain(const char* text) noexcept:
    """Return True if a text needs no escaping in Markdown at any position."""
    cdef char before = 0
    if text[0] == c"(" or text[0] == c":":
        return False
    while 32 <= text[0] < 127:
        if text[0] == c" ":
            if before == c" ":
                return False
        elif (
            text[0] == c"\\" or text[0] == c"`" or text[0] == c"*" or text[0] == c"_"
            or text[0] == c"<" or text[0] == c"&" or text[0] == c"~" or text[0] == c"["
            or text[0] == c"]" or text[0] == c"!"
        ):
            return False
        before = text[0]
        text += 1
    return text[0] == 0
