# Elements that may name an author or a date.

def signs(_Element body not None, *, is_telling, kind_of, kind_of_attributes, neither, dated,
          plain, naming, starts, Py_ssize_t left, Py_ssize_t after_heading, Py_ssize_t longest):
    """Return candidates for authors and dates; see ``metadata/marks.py``."""
    cdef xmlNode* root = body._c_node
    cdef xmlNode* node = root
    cdef xmlAttr* own
    cdef unicode text, tail, value
    cdef dict kinds = {"": neither}, tags = {}
    cdef list found = []
    cdef bint before = True
    cdef int tag
    while node is not NULL:
        if node.type != XML_ELEMENT_NODE:
            node = following(node, root)
            continue
        left -= 1
        if not left:
            break
        text = short_text(text_from(node.children), longest, starts)
        if text is not None and not is_telling(text):
            text = None
        tail = short_text(text_from(node.next), longest, starts)
        if tail is not None and not is_telling(tail):
            tail = None
        kind = neither
        own = attribute(node, "class")
        if own is not NULL:
            value = value_of(node, own)
            kind = kinds.get(value)
            if kind is None:
                kind = kinds[value] = kind_of(value)
        key = <size_t>node.name
        known = tags.get(key)
        if known is None:
            name = tag_of(node)
            known = tags[key] = (
                1 if name == "h1" else 2 if name in dated else 3 if name == "a"
                else 4 if name in plain else 5
            )
        tag = known
        if tag == 1:
            if before:
                before, left = False, min(left, after_heading)
        elif tag == 2:
            kind = False, True
        elif tag == 3:
            own = attribute(node, "href")
            if own is not NULL and "/author" in value_of(node, own):
                kind = True, kind[1]
        elif tag == 5 and is_named(node, naming):
            kind = kind_of_attributes(api.elementFactory(body._doc, node), kind)
        if text is not None or tail is not None or tag == 1 or kind is not neither:
            found.append((api.elementFactory(body._doc, node), text, tail, kind))
        node = following(node, root)
    return found


cdef bint is_named(xmlNode* node, naming) except -1:
    """Return True if the element has one of the attributes ``naming``."""
    cdef xmlAttr* own = node.properties
    while own is not NULL:
        if own.ns is NULL and decoded(<const char*>own.name) in naming:
            return True
        own = own.next
    return False


cdef unicode short_text(xmlNode* first, Py_ssize_t longest, starts):
    """Return a text of 5 to ``longest`` characters that may hold a byline, or None."""
    cdef unicode text
    cdef const char* letters
    if first is NULL or first.content is NULL:
        return None
    if text_from(first.next) is NULL:
        letters = <const char*>first.content
        if <Py_ssize_t>strlen(letters) > 4 * longest:
            return None
        if strstr(letters, "20") is NULL and strstr(letters, "19") is NULL:
            while is_space(letters[0]):
                letters += 1
            if letters[0] == 0 or letters[1] == 0:
                return None
            if (
                0 < letters[0] < 127 and 0 < letters[1] < 127
                and PyUnicode_DecodeASCII(letters, 2, NULL) not in starts
            ):
                return None
    text = full_text(first)
    return text if 4 < len(text) <= longest else None
