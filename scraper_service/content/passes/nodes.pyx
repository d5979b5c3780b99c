"""The elements of a page as nodes of libxml2, without creating element objects.

No function changes the tree.
"""

from cpython.unicode cimport (
    PyUnicode_AsUTF8,
    PyUnicode_DATA,
    PyUnicode_DecodeUTF8,
    PyUnicode_GET_LENGTH,
    PyUnicode_KIND,
    PyUnicode_READ,
)
from libc.stdint cimport uint32_t
from libc.string cimport memset, strcmp, strlen, strstr
from lxml.includes cimport etreepublic as api
from lxml.includes.etreepublic cimport _Document, _Element
from lxml.includes.tree cimport (
    XML_CDATA_SECTION_NODE,
    XML_ELEMENT_NODE,
    XML_TEXT_NODE,
    XML_XINCLUDE_END,
    XML_XINCLUDE_START,
    xmlAttr,
    xmlNode,
)

from lxml import etree

cdef extern from "libxml/xmlversion.h":
    const char* LIBXML_DOTTED_VERSION

cdef extern from *:
    unsigned int SOURCES_CHECKSUM  # set by setup.py

cdef extern from "Python.h":
    bint Py_UNICODE_ISSPACE(Py_UCS4 character)

api.import_lxml__etree()
# The layout of a node comes from the libxml2 headers at compile time.
cdef tuple HEADERS = tuple(map(int, LIBXML_DOTTED_VERSION.decode().split(".")[:2]))
if HEADERS != etree.LIBXML_VERSION[:2]:
    raise ImportError("compiled for another libxml2")

checksum = SOURCES_CHECKSUM

ctypedef xmlNode* Node
ctypedef _Document Document
ctypedef _Element Element

cdef enum:
    MAX_TAGS = 40
    MAX_UTF8 = 4  # bytes of a character
    TAG_SLOTS = 128

cdef str BLANK = " "

cpdef enum:
    BLOCK = 0
    SPAN = 1
    LINK = 2
    LISTING = 3
    LINE_BREAK = 4
    STRONG_TEXT = 5
    EM_TEXT = 6
    STRUCK_TEXT = 7
    IMAGE = 8


cdef class InlineRun:
    """The state of the writer of Markdown; see ``markdown/spans.py``."""

    cdef public list run
    cdef public str flat
    cdef public str link
    cdef public Py_ssize_t link_from
    cdef public str card
    cdef public bint in_link
    cdef public bint is_main
    cdef public Py_ssize_t taken
    cdef public Py_ssize_t depth
    cdef public dict open_marks
    cdef public object layout


ctypedef InlineRun Spans  # the writer of Markdown


cdef class Tags:
    """A few tag names without a namespace."""

    cdef const char* names[MAX_TAGS]
    cdef Py_ssize_t count
    cdef uint32_t[32] seconds  # by the first letter, a bit for each second letter
    cdef list kept

    def __init__(self, tags):
        self.kept = [tag.encode() for tag in tags]
        self.count = len(self.kept)
        if self.count > MAX_TAGS:
            raise ValueError("too many tags")
        memset(self.seconds, 0, sizeof(self.seconds))
        for n in range(self.count):
            self.names[n] = <bytes>self.kept[n]
            self.seconds[self.names[n][0] & 31] |= (
                <uint32_t>1 << (self.names[n][1] & 31)
            )

    cdef inline bint have(self, xmlNode* node) noexcept:
        cdef const char* name = <const char*>node.name
        cdef Py_ssize_t n
        if not self.seconds[name[0] & 31] >> (name[1] & 31) & 1:
            return False
        for n in range(self.count):
            if name[0] == self.names[n][0] and strcmp(name, self.names[n]) == 0:
                return node.ns is NULL or node.ns.href is NULL
        return False


cdef class TagNames:
    """The tag names of the nodes of one document; a name is decoded once."""

    cdef const void* latest[TAG_SLOTS]  # equal names are one string of the document
    cdef list names
    cdef dict known

    def __cinit__(self):
        cdef Py_ssize_t n
        for n in range(TAG_SLOTS):
            self.latest[n] = NULL
        self.names = [None] * TAG_SLOTS
        self.known = {}

    cdef inline str of(self, xmlNode* node):
        cdef Py_ssize_t slot = (<size_t>node.name >> 3) % TAG_SLOTS
        if self.latest[slot] is not node.name:
            key = <size_t>node.name
            name = self.known.get(key)
            if name is None:
                name = self.known[key] = api.namespacedName(node)
            self.latest[slot] = node.name
            self.names[slot] = name
        return <str>self.names[slot]


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
    """Return the elements with these tags in document order, including ``root``."""
    cdef xmlNode* top = root._c_node
    cdef xmlNode* node = top
    cdef Tags wanted = Tags(tags)
    cdef list found = []
    while node is not NULL:
        if node.type == XML_ELEMENT_NODE and wanted.have(node):
            found.append(api.elementFactory(root._doc, node))
        node = following(node, top)
    return found


def texts_in(_Element element not None):
    """Return all texts in ``element``, in document order."""
    cdef list parts = []
    add_texts(element._c_node, parts)
    return parts


def with_text(list elements not None, Py_ssize_t longest, *parts):
    """Return the elements whose text has one of ``parts``, without most longer texts."""
    cdef list wanted = [part.encode() for part in parts]
    cdef list found = []
    cdef xmlNode* first
    cdef bytes sign
    for element in elements:
        first = text_from((<_Element?>element)._c_node.children)
        if first is NULL:
            continue
        if first.content is NULL or text_from(first.next) is not NULL:
            found.append(element)  # not examined
        elif strlen(<const char*>first.content) <= MAX_UTF8 * longest:
            for sign in wanted:
                if strstr(<const char*>first.content, sign) is not NULL:
                    found.append(element)
                    break
    return found


cdef int add_texts(xmlNode* node, list parts) except -1:
    cdef xmlNode* child = first_child(node)
    cdef str text = full_text(text_from(node.children))
    if text:
        parts.append(text)
    while child is not NULL:
        add_texts(child, parts)
        text = full_text(text_from(child.next))
        if text:
            parts.append(text)
        child = next_sibling(child)
    return 0


cdef inline xmlNode* node_of(_Element element) except? NULL:
    return element._c_node


cdef inline _Document document_of(_Element element):
    return element._doc


cdef inline _Element element_of(_Document document, xmlNode* node):
    return api.elementFactory(document, node)


cdef inline xmlNode* following(xmlNode* node, xmlNode* root) noexcept:
    """Return the node after ``node`` in document order; NULL at the end of ``root``."""
    if node.type == XML_ELEMENT_NODE and node.children is not NULL:
        return node.children
    while node is not root:
        if node.next is not NULL:
            return node.next
        node = node.parent
    return NULL


cdef inline xmlNode* next_element(xmlNode* node, xmlNode* root) noexcept:
    node = following(node, root)
    while node is not NULL and node.type != XML_ELEMENT_NODE:
        node = following(node, root)
    return node


cdef inline xmlNode* first_child(xmlNode* node) noexcept:
    node = node.children
    while node is not NULL and node.type != XML_ELEMENT_NODE:
        node = node.next
    return node


cdef inline xmlNode* next_sibling(xmlNode* node) noexcept:
    node = node.next
    while node is not NULL and node.type != XML_ELEMENT_NODE:
        node = node.next
    return node


cdef inline xmlAttr* attribute_at(xmlNode* node, const char* name) noexcept:
    cdef xmlAttr* own = node.properties
    while own is not NULL:
        if own.name[0] == name[0] and own.ns is NULL:
            if strcmp(<const char*>own.name, name) == 0:
                return own
        own = own.next
    return NULL


cdef inline str attribute(xmlNode* node, str name):
    cdef xmlAttr* own
    if node.properties is NULL:
        return None
    own = attribute_at(node, PyUnicode_AsUTF8(name))
    return attribute_text(node, own) if own is not NULL else None


cdef inline str attribute_text(xmlNode* node, xmlAttr* own):
    cdef xmlNode* text = <xmlNode*>own.children
    if text is NULL:
        return ""
    if text.next is NULL and text.type == XML_TEXT_NODE and text.content is not NULL:
        return decoded(<const char*>text.content)
    return api.attributeValue(node, own)


cdef tuple naming_attributes(xmlNode* node):
    cdef xmlAttr* own = node.properties
    cdef str names = None, id = None, marked = None, tested = None, label = None
    cdef str role = None
    cdef const char* name
    while own is not NULL:
        name = <const char*>own.name
        if own.ns is NULL:
            if name[0] == b"c":
                if strcmp(name, "class") == 0:
                    names = attribute_text(node, own)
            elif name[0] == b"i":
                if strcmp(name, "id") == 0:
                    id = attribute_text(node, own)
                elif strcmp(name, "itemprop") == 0:
                    marked = attribute_text(node, own)
            elif name[0] == b"r":
                if strcmp(name, "role") == 0:
                    role = attribute_text(node, own)
            elif name[0] == b"d":
                if strcmp(name, "data-testid") == 0:
                    tested = attribute_text(node, own)
            elif name[0] == b"a" and strcmp(name, "aria-label") == 0:
                label = attribute_text(node, own)
        own = own.next
    return names, id, marked, tested or label, role


cdef inline bint has_attributes(xmlNode* node) noexcept:
    return node.properties is not NULL


cdef inline str text_of(xmlNode* node):
    return text_or_blank(text_from(node.children))


cdef inline str tail_of(xmlNode* node):
    return text_or_blank(text_from(node.next))


cdef inline xmlNode* text_from(xmlNode* node) noexcept:
    """Return the text node at or after ``node``, unless another node comes first."""
    while node is not NULL:
        if node.type == XML_TEXT_NODE or node.type == XML_CDATA_SECTION_NODE:
            return node
        if node.type != XML_XINCLUDE_START and node.type != XML_XINCLUDE_END:
            return NULL
        node = node.next
    return NULL


cdef inline str text_or_blank(xmlNode* first):
    """Return the joined text nodes from ``first``; BLANK for white space, else None."""
    cdef str text
    if first is NULL:
        return None
    if (
        first.content is not NULL
        and is_blank(<const char*>first.content)
        and text_from(first.next) is NULL
    ):
        return BLANK if first.content[0] else None
    text = full_text(first)
    return BLANK if text.isspace() else text or None


cdef str full_text(xmlNode* first):
    """Return the joined text nodes that begin at ``first``; None without any."""
    if first is NULL:
        return None
    if text_from(first.next) is NULL:
        return decoded(<const char*>first.content) if first.content is not NULL else ""
    parts = []
    while first is not NULL:
        if first.content is not NULL:
            parts.append(decoded(<const char*>first.content))
        first = text_from(first.next)
    return "".join(parts)


cdef inline bint is_blank(const char* text) noexcept:
    """Return True if the text contains only ASCII white space."""
    while text[0] == 32 or 9 <= text[0] <= 13 or 28 <= text[0] <= 31:
        text += 1
    return text[0] == 0


cdef inline str decoded(const char* text):
    return PyUnicode_DecodeUTF8(text, strlen(text), NULL)


cdef Py_ssize_t words_in(str text) noexcept:
    """Return the number of words, as ``split`` counts them."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), n, count = 0
    cdef bint inside = False
    for n in range(size):
        if Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, n)):
            inside = False
        elif not inside:
            inside = True
            count += 1
    return count


cdef Py_ssize_t words_inside(xmlNode* node) except -1:
    """Return the number of words in an element, each text split by itself."""
    cdef Py_ssize_t total = words_from(text_from(node.children))
    cdef xmlNode* child = first_child(node)
    while child is not NULL:
        total += words_inside(child) + words_from(text_from(child.next))
        child = next_sibling(child)
    return total


cdef Py_ssize_t words_from(xmlNode* first) except -1:
    """Return the number of words of the joined text nodes that begin there."""
    cdef const unsigned char* at
    cdef Py_ssize_t count = 0
    cdef bint inside = False
    if first is NULL:
        return 0
    if first.content is NULL or text_from(first.next) is not NULL:
        return words_in(full_text(first))
    at = <const unsigned char*>first.content
    while at[0]:
        if at[0] > 127:
            return words_in(full_text(first))
        if at[0] == 32 or 9 <= at[0] <= 13 or 28 <= at[0] <= 31:
            inside = False
        elif not inside:
            inside = True
            count += 1
        at += 1
    return count


cdef bint may_begin_word(xmlNode* node) noexcept:
    """Return False if the text of an element is empty, or begins with a sign or a space."""
    cdef xmlNode* at = following(node, node)
    cdef unsigned char first
    while at is not NULL:
        if at.type == XML_TEXT_NODE or at.type == XML_CDATA_SECTION_NODE:
            if at.content is not NULL and at.content[0]:
                first = at.content[0]
                return first > 127 or first == 36 or first == 95 or (  # $ _
                    48 <= first <= 57 or 97 <= first | 32 <= 122
                )
        at = following(at, node)
    return False
