# Searches for elements and attributes.

cdef enum:
    MAX_TAGS = 16
    LEAST_SESSION = 20  # characters of a session id; see html/page_urls.py

cdef class Tags:
    """A few tag names without a namespace."""

    cdef const char* names[MAX_TAGS]
    cdef Py_ssize_t count
    cdef list kept

    def __init__(self, tags):
        self.kept = [tag.encode() for tag in tags]
        self.count = len(self.kept)
        if self.count > MAX_TAGS:
            raise ValueError("too many tags")
        for n in range(self.count):
            self.names[n] = <bytes>self.kept[n]

    cdef inline bint have(self, xmlNode* node) noexcept:
        return self.number(node) >= 0

    cdef inline Py_ssize_t number(self, xmlNode* node) noexcept:
        """Return the index of an element's tag among the tags; -1 if it is not there."""
        cdef const char* name = <const char*>node.name
        cdef Py_ssize_t n
        for n in range(self.count):
            if name[0] == self.names[n][0] and strcmp(name, self.names[n]) == 0:
                return n if node.ns is NULL or node.ns.href is NULL else -1
        return -1


cdef class Finder:
    """A predicate: True if an element has a descendant with one of the tags."""

    cdef Tags wanted

    def __init__(self, *tags):
        self.wanted = Tags(tags)

    def __call__(self, _Element root not None):
        cdef xmlNode* top = root._c_node
        cdef xmlNode* node = following(top, top)
        while node is not NULL:
            if node.type == XML_ELEMENT_NODE and self.wanted.have(node):
                return True
            node = following(node, top)
        return False


def elements(_Element root not None, *tags):
    """Return the elements that ``iter`` yields; accepts up to ``MAX_TAGS`` tags."""
    cdef xmlNode* top = root._c_node
    cdef xmlNode* node = top
    cdef Tags wanted = Tags(tags)
    cdef list found = []
    while node is not NULL:
        if node.type == XML_ELEMENT_NODE and wanted.have(node):
            found.append(api.elementFactory(root._doc, node))
        node = following(node, top)
    return found


def classed(_Element root not None, is_wanted, *tags):
    """Return the elements with some tags for whose class ``is_wanted`` returns True."""
    cdef xmlNode* top = root._c_node
    cdef xmlNode* node = top
    cdef xmlAttr* own
    cdef Tags wanted = Tags(tags)
    cdef set others = set()
    cdef list found = []
    cdef unicode names
    while node is not NULL:
        if node.type == XML_ELEMENT_NODE and wanted.have(node):
            own = attribute(node, "class")
            if own is not NULL:
                names = value_of(node, own)
                if names not in others:
                    if is_wanted(names):
                        found.append(api.elementFactory(root._doc, node))
                    else:
                        others.add(names)
        node = following(node, top)
    return found


def values(_Element root not None, str name not None, Py_ssize_t most):
    """Return the first ``most`` values of an attribute."""
    cdef xmlNode* top = root._c_node
    cdef xmlNode* node = top
    cdef xmlAttr* own
    cdef list found = []
    cdef bytes wanted = name.encode()
    while node is not NULL and len(found) < most:
        if node.type == XML_ELEMENT_NODE:
            own = attribute(node, wanted)
            if own is not NULL:
                found.append(value_of(node, own))
        node = following(node, top)
    return found


def is_deeper(_Element root not None, Py_ssize_t depth):
    """Return True if elements are nested more than ``depth`` levels deep."""
    cdef xmlNode* top = root._c_node
    cdef xmlNode* node = top
    cdef Py_ssize_t level = 1
    while True:
        if level > depth:
            return True
        if node.type == XML_ELEMENT_NODE and first_element(node.children) is not NULL:
            node = first_element(node.children)
            level += 1
            continue
        while node is not top and first_element(node.next) is NULL:
            node = node.parent
            level -= 1
        if node is top:
            return False
        node = first_element(node.next)


def addresses(_Element root not None, dict names not None, related=None, relations=()):
    """Return (URL, whether it is certainly absolute) of the elements in ``names``.

    ``names`` maps each tag to its URL attribute. Elements with the tag ``related`` count
    only if their ``rel`` is in ``relations``.
    """
    cdef xmlNode* top = root._c_node
    cdef xmlNode* node = top
    cdef xmlAttr* own
    cdef xmlAttr* relation
    cdef Tags wanted = Tags(names), given = Tags(names.values())
    cdef Py_ssize_t of_related = list(names).index(related) if related else -1, n
    cdef list found = []
    while node is not NULL:
        n = wanted.number(node) if node.type == XML_ELEMENT_NODE else -1
        if n >= 0:
            own = attribute(node, given.names[n])
            if own is not NULL:
                relation = attribute(node, "rel") if n == of_related else NULL
                if n != of_related or (
                    relation is not NULL and value_of(node, relation) in relations
                ):
                    found.append(
                        (value_of(node, own), is_finished(<xmlNode*>own.children))
                    )
        node = following(node, top)
    return found


def unfinished(_Element body not None, dict names not None):
    """Return the elements whose URLs may need work; see ``html/cleaning.py``."""
    cdef xmlNode* root = body._c_node
    cdef xmlNode* node = root
    cdef xmlAttr* own
    cdef dict seen = {}
    cdef list found = []
    cdef bytes name
    while node is not NULL:
        if node.type == XML_ELEMENT_NODE:
            key = <size_t>node.name
            known = seen.get(key)
            if known is None:
                tag = tag_of(node)
                known = seen[key] = (
                    False if tag not in names
                    else True if tag in {"img", "video"}
                    else names[tag].encode()
                )
            if known is not False:
                if known is True:
                    found.append(api.elementFactory(body._doc, node))
                else:
                    name = known
                    own = attribute(node, name)
                    if own is not NULL and not is_finished(<xmlNode*>own.children):
                        found.append(api.elementFactory(body._doc, node))
        node = following(node, root)
    return found


cdef inline bint is_finished(xmlNode* value) noexcept:
    """Return True if a URL is certainly absolute and contains no session id."""
    cdef const char* text
    cdef Py_ssize_t value_of_name = -1  # length so far of a query value; -1 outside
    if value is NULL or value.next is not NULL or value.type != XML_TEXT_NODE:
        return False
    text = <const char*>value.content
    if text is NULL or strncmp(text, "http", 4) != 0:
        return False
    text += 4
    if text[0] == c"s":
        text += 1
    if strncmp(text, "://", 3) != 0:
        return False
    while 32 < text[0] < 127:
        if text[0] == c"=":
            value_of_name = 0
        elif text[0] == c"&" or text[0] == c"#":
            value_of_name = -1
        elif value_of_name >= 0:
            value_of_name += 1
            if value_of_name == LEAST_SESSION:
                return False
        text += 1
    return text[0] == 0


def suspects(_Element body not None, is_watched, ids):
    """Return the elements that may be hidden; see ``html/hidden_text.py``."""
    cdef xmlNode* root = body._c_node
    cdef xmlNode* node = root
    cdef xmlAttr* own
    cdef const char* name
    cdef unicode names, style, hidden, mark
    cdef bint any_id = bool(ids), watched
    cdef set harmless = set()
    cdef list found = []
    while node is not NULL:
        if node.type == XML_ELEMENT_NODE and node.properties is not NULL:
            names = style = hidden = mark = None
            watched = False
            own = node.properties
            while own is not NULL:
                if own.ns is NULL:
                    name = <const char*>own.name
                    if name[0] == c"c" and strcmp(name, "class") == 0:
                        names = value_of(node, own)
                        if names not in harmless:
                            watched = is_watched(names)
                            if not watched:
                                harmless.add(names)
                    elif name[0] == c"s" and strcmp(name, "style") == 0:
                        style = value_of(node, own)
                    elif name[0] == c"h" and strcmp(name, "hidden") == 0:
                        hidden = value_of(node, own)
                    elif any_id and name[0] == c"i" and strcmp(name, "id") == 0:
                        mark = value_of(node, own)
                        if mark not in ids:
                            mark = None
                own = own.next
            if watched or style or hidden is not None or mark is not None:
                element = api.elementFactory(body._doc, node)
                found.append((element, names, watched, mark, style, hidden))
        node = following(node, root)
    return found
