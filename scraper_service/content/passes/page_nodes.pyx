"""Further access to the nodes of libxml2."""

from libc.string cimport strncmp

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    bint Py_UNICODE_ISDECIMAL(Py_UCS4 character)

cdef enum:
    MAX_PARTS = 24
    NAME_SLOTS = 64
    OTHER_NAME = -1
    NAMED = -2


cdef inline xmlNode* parent_of(xmlNode* node) noexcept:
    node = node.parent
    return node if node is not NULL and node.type == XML_ELEMENT_NODE else NULL


cdef inline object key_of(xmlNode* node):
    """Return a key for the node in dictionaries."""
    return <size_t>node


cdef dict attributes_of(xmlNode* node):
    """Return the attributes of a node by name."""
    cdef dict found = {}
    cdef xmlAttr* own = node.properties
    while own is not NULL:
        if own.ns is NULL:
            found[decoded(<const char*>own.name)] = value_of(node, own)
        own = own.next
    return found


cdef inline str value_of(xmlNode* node, xmlAttr* own):
    cdef xmlNode* text = <xmlNode*>own.children
    if text is NULL:
        return ""
    if is_single(text):
        return decoded(<const char*>text.content)
    return api.attributeValue(node, own)


cdef inline bint is_own_block(xmlNode* text) noexcept:
    """Return True if the content of a text is a block of a chunk, by itself."""
    return is_in_region(text.content) and <void*>text.content != <void*>&text.properties


cdef int set_value(Document document, xmlNode* node, str name, str value) except -1:
    """Set an attribute of an element that has it already; no value has controls."""
    cdef xmlAttr* own = attribute_at(node, PyUnicode_AsUTF8(name))
    cdef xmlNode* text = <xmlNode*>own.children if own is not NULL else NULL
    cdef char* made
    if text is not NULL and is_single(text) and is_own_block(text):
        made = copied_text(PyUnicode_AsUTF8(value))
        if made is not NULL:
            free_block(text.content)
            text.content = <unsigned char*>made
            return 0
    api.elementFactory(document, node).set(name, value)
    return 0


cdef inline bint is_single(xmlNode* text) noexcept:
    """Return True if a value is a single node of text."""
    return text.next is NULL and text.type == XML_TEXT_NODE and text.content is not NULL


cdef class AttributeNames:
    """A few attributes by name, or by parts of the value, for the nodes of one document."""

    cdef Tags names
    cdef Tags valued
    cdef list parts
    cdef const void* latest[NAME_SLOTS]  # equal names are one string of the document
    cdef Py_ssize_t known[NAME_SLOTS]

    def __init__(self, names, dict parts=None):
        self.names = Tags(names)
        self.valued = Tags(parts or ())
        self.parts = [] if parts is None else [NameParts(*some) for some in parts.values()]
        memset(self.latest, 0, sizeof(self.latest))

    cdef inline bint on(self, xmlNode* node) noexcept:
        """Return True if a node has one of the attributes."""
        cdef xmlAttr* own = node.properties
        cdef Py_ssize_t slot
        while own is not NULL:
            slot = (<size_t>own.name >> 3) % NAME_SLOTS
            if self.latest[slot] is not own.name:
                self.latest[slot] = own.name
                self.known[slot] = self.kind_of(<const char*>own.name)
            if self.known[slot] == NAMED:
                return True
            if self.known[slot] >= 0 and own.children is not NULL:
                if (<NameParts>self.parts[self.known[slot]]).are_of(own):
                    return True
            own = own.next
        return False

    cdef Py_ssize_t kind_of(self, const char* name) noexcept:
        """Return NAMED, the number of the parts of the value, or OTHER_NAME."""
        cdef Py_ssize_t n
        for n in range(self.names.count):
            if name[0] == self.names.names[n][0] and strcmp(name, self.names.names[n]) == 0:
                return NAMED
        for n in range(self.valued.count):
            if name[0] == self.valued.names[n][0] and strcmp(name, self.valued.names[n]) == 0:
                return n
        return OTHER_NAME


cdef class NameParts:
    """A few parts of names, in lower case; each has two letters or more."""

    cdef const char* parts[MAX_PARTS]
    cdef int count
    cdef uint32_t[32] seconds  # by the first letter, a bit for each second letter
    cdef uint32_t[32] thirds  # by the first letter, a bit for each third letter
    cdef uint32_t[32] pairs  # by a letter, a bit for each that may follow it in a part
    cdef int step
    cdef int[32] firsts  # by the first letter, the number of a part
    cdef int[MAX_PARTS] others  # by the number of a part, the next with that letter
    cdef list kept

    def __init__(self, *parts):
        self.kept = [part.encode() for part in parts]
        self.count = len(self.kept)
        if self.count > MAX_PARTS:
            raise ValueError("too many parts")
        memset(self.seconds, 0, sizeof(self.seconds))
        memset(self.thirds, 0, sizeof(self.thirds))
        memset(self.pairs, 0, sizeof(self.pairs))
        self.step = 1 if any(len(part) < 3 for part in self.kept) else 2
        for n in range(32):
            self.firsts[n] = -1
        for n in range(self.count):
            self.parts[n] = <bytes>self.kept[n]
            first = self.parts[n][0] & 31
            self.seconds[first] |= <uint32_t>1 << (self.parts[n][1] & 31)
            self.pairs[first] |= <uint32_t>1 << (self.parts[n][1] & 31)
            if self.parts[n][2]:
                self.thirds[first] |= <uint32_t>1 << (self.parts[n][2] & 31)
                self.pairs[self.parts[n][1] & 31] |= (
                    <uint32_t>1 << (self.parts[n][2] & 31)
                )
            else:
                self.thirds[first] = 0xFFFFFFFF  # of two letters
            self.others[n] = self.firsts[first]
            self.firsts[first] = n

    cdef inline bint are_in(self, xmlNode* node, str name) noexcept:
        """Return True if an attribute has one of the parts, in any case."""
        cdef xmlAttr* own
        if self.count == 0 or node.properties is NULL:
            return False
        own = attribute_at(node, PyUnicode_AsUTF8(name))
        return own is not NULL and own.children is not NULL and self.are_of(own)

    cdef inline bint are_of(self, xmlAttr* own) noexcept:
        """Return True if an attribute with a value has one of the parts."""
        cdef xmlNode* text = <xmlNode*>own.children
        if not is_single(text):
            return True  # not examined
        return self.has_part(<const char*>text.content)

    cdef bint has_part(self, const char* text) noexcept:
        """Return True if a text has one of the parts.

        Each part of three letters or more has a pair of letters at every second position.
        """
        cdef const char* at = text
        while at[0] and at[1]:
            if self.pairs[at[0] & 31] >> (at[1] & 31) & 1 and (
                self.begins(at) or (at is not text and self.begins(at - 1))
            ):
                return True
            at += self.step
        return False

    cdef bint begins(self, const char* at) noexcept:
        """Return True if a text of two letters or more begins with one of the parts."""
        cdef const char* part
        cdef int n, size
        if not (
            self.seconds[at[0] & 31] >> (at[1] & 31) & 1
            and self.thirds[at[0] & 31] >> (at[2] & 31) & 1
        ):
            return False
        n = self.firsts[at[0] & 31]
        while n >= 0:
            part = self.parts[n]
            size = 0
            while part[size] and small(at[size]) == part[size]:
                size += 1
            if not part[size]:
                return True
            n = self.others[n]
        return False


cdef enum:
    SLOTS = 1024


cdef class NameSet:
    """A set of names in ASCII that may have false members, but lacks none.

    Names have letters, digits, hyphens and underscores.
    """

    cdef unsigned char[SLOTS] slots

    def __init__(self, names):
        cdef bytes name
        memset(self.slots, 0, SLOTS)
        for text in names:
            name = text.encode()
            if name:
                self.slots[slot_of(name, len(name))] = 1

    cdef inline bint may_meet(self, const char* at) noexcept:
        """Return False if a class attribute has no name of the set."""
        cdef const char* start
        while at[0]:
            start = at
            while is_of_name(at[0]):
                at += 1
            if at != start and self.slots[slot_of(start, at - start)]:
                return True
            if at[0] < 0:
                return True  # other letters and white space are not examined
            if at[0]:
                at += 1
        return False


cdef inline bint is_of_name(char byte) noexcept:
    return 97 <= byte | 32 <= 122 or 48 <= byte <= 57 or byte == 45 or byte == 95


cdef inline uint32_t slot_of(const char* name, Py_ssize_t size) noexcept:
    cdef uint32_t first = <unsigned char>name[0], last = <unsigned char>name[size - 1]
    cdef uint32_t middle = <unsigned char>name[size // 2]
    return (first * 7 + last * 131 + middle * 37 + <uint32_t>size * 61) & (SLOTS - 1)


cdef class HidingSigns:
    """Finds the attributes of a node that may hide it."""

    cdef NameSet names
    cdef NameParts styles
    cdef bint has_ids

    def __init__(self, names, styles, has_ids):
        self.names = NameSet(names)
        self.styles = styles
        self.has_ids = has_ids

    cdef bint on(self, xmlNode* node) noexcept:
        """Return False if no attribute of a node hides it."""
        cdef xmlAttr* own = node.properties
        cdef xmlNode* text
        cdef const char* name
        while own is not NULL:
            name = <const char*>own.name
            text = <xmlNode*>own.children
            if name[0] == 99 and text is not NULL and strcmp(name, "class") == 0:
                if not is_single(text) or self.names.may_meet(<const char*>text.content):
                    return True
            elif name[0] == 115 and text is not NULL and strcmp(name, "style") == 0:
                if not is_single(text) or self.styles.has_part(<const char*>text.content):
                    return True
            elif name[0] == 104 and strcmp(name, "hidden") == 0:
                return True
            elif name[0] == 105 and self.has_ids and strcmp(name, "id") == 0:
                return True
            own = own.next
        return False

cdef inline char small(char letter) noexcept:
    return letter + 32 if 65 <= letter <= 90 else letter


cdef class TextSigns:
    """Finds short texts that contain a year, or begin with one of some pairs of letters.

    The pairs are in ASCII.
    """

    cdef Py_ssize_t longest
    cdef object starts
    cdef uint32_t[128] seconds  # by the first letter, a bit for each second letter

    def __init__(self, longest, starts):
        self.longest = longest
        self.starts = starts
        memset(self.seconds, 0, sizeof(self.seconds))
        for first, second in starts:
            self.seconds[ord(first)] |= <uint32_t>1 << (ord(second) & 31)

    cdef inline str of(self, xmlNode* node):
        """Return the text before the first child if it has a sign, else None."""
        return self.checked(text_from(node.children))

    cdef inline str behind(self, xmlNode* node):
        """Return the text after the element if it has a sign, else None."""
        return self.checked(text_from(node.next))

    cdef str checked(self, xmlNode* first):
        cdef str text
        if first is NULL:
            return None
        if (
            first.content is not NULL
            and text_from(first.next) is NULL
            and not self.may_tell(<const char*>first.content)
        ):
            return None
        text = full_text(first)
        if len(text) <= self.longest and (
            (len(text) > 4 and ("20" in text or "19" in text))
            or text.lstrip()[:2] in self.starts
        ):
            return text
        return None

    cdef bint may_tell(self, const char* text) noexcept:
        """Return False for bytes of a text that has no sign."""
        cdef const char* at = text
        cdef const char* start
        while at[0] == 32 or 9 <= at[0] <= 13 or 28 <= at[0] <= 31:
            at += 1
        start = at
        while at[0]:
            if at - text > MAX_UTF8 * self.longest:
                return False
            if (at[0] == 50 and at[1] == 48) or (at[0] == 49 and at[1] == 57):
                if strnlen(at, MAX_UTF8 * self.longest) + (at - text) > 4:
                    return True
            at += 1
        if not 0 < start[0] < 128 or not 0 < start[1] < 128:
            return at - start >= 4  # perhaps a foreign space before two letters
        return self.seconds[<int>start[0]] >> (start[1] & 31) & 1


cdef extern from "string.h":
    size_t strnlen(const char* text, size_t most) noexcept


cpdef enum:
    OTHER_URL = 0
    COMPLETE_URL = 1
    ROOTED_URL = 2


cpdef int url_kind(str value) noexcept:
    """Return COMPLETE_URL or ROOTED_URL for plain URLs of these kinds, else OTHER_URL."""
    cdef const char* at
    cdef const char* start
    if not PyUnicode_IS_COMPACT_ASCII(value):
        return OTHER_URL
    start = at = <const char*>PyUnicode_DATA(value)
    cdef const char* end = at + PyUnicode_GET_LENGTH(value)
    cdef bint is_query = False, has_backslash = False
    while at < end:
        if not 32 < at[0] < 127:
            return OTHER_URL
        has_backslash |= at[0] == 92
        at += 1
    if strncmp(start, "http://", 7) == 0 or strncmp(start, "https://", 8) == 0:
        return OTHER_URL if has_backslash else COMPLETE_URL
    if start[0] != 47:  # /
        return OTHER_URL
    at = start + 1
    if at == end:
        return ROOTED_URL
    if not (
        48 <= at[0] <= 57 or 97 <= at[0] | 32 <= 122 or at[0] == 95 or at[0] == 45
    ):
        return OTHER_URL
    while at < end:
        if at[0] == 35 or (at[0] == 47 and at[1] == 46):  # "#" or "/."
            return OTHER_URL
        if at[0] == 63:  # ?
            if is_query or at + 1 == end:
                return OTHER_URL
            is_query = True
        elif not is_query and (at[0] == 59 or at[0] == 92):  # ";" or a backslash
            return OTHER_URL
        at += 1
    return ROOTED_URL
