# The texts of elements, and counts of words and punctuation.

def collect(_Element root not None, list parts not None, Py_ssize_t left, shared):
    """Collect the text of a page; see ``text/sentences.py``."""
    collected(root._c_node, parts, left, shared, {})


cdef Py_ssize_t collected(xmlNode* node, list parts, Py_ssize_t left, shared,
                          dict seen) except? -1:
    cdef xmlNode* child = node.children
    left = taken(text_from(child), parts, left)
    while child is not NULL and left >= 0:
        if child.type == XML_ELEMENT_NODE:
            key = <size_t>child.name
            is_shared = seen.get(key)
            if is_shared is None:
                is_shared = seen[key] = tag_of(child) in shared
            if is_shared is False:
                left = collected(child, parts, left, shared, seen)
            if left >= 0:
                left = taken(text_from(child.next), parts, left)
        child = child.next
    return left


cdef Py_ssize_t taken(xmlNode* first, list parts, Py_ssize_t left) except? -1:
    cdef unicode text
    if first is not NULL:
        text = full_text(first)
        if text:
            parts.append(text)
            left -= len(text)
    return left


def texts(_Element element not None):
    """Return the texts that ``itertext`` yields for an element without comments."""
    cdef list parts = []
    all_texts(element._c_node, parts)
    return parts


cdef int all_texts(xmlNode* node, list parts) except -1:
    cdef xmlNode* child = node.children
    add_text(text_from(child), parts)
    while child is not NULL:
        if child.type == XML_ELEMENT_NODE:
            all_texts(child, parts)
            add_text(text_from(child.next), parts)
        child = child.next
    return 0


cdef int add_text(xmlNode* first, list parts) except -1:
    cdef unicode text
    if first is not NULL:
        text = full_text(first)
        if text:
            parts.append(text)
    return 0


def spoken(unicode text not None):
    """Return the number of words with a letter or digit; see ``metadata/language.py``."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), n
    cdef bint counted = False
    cdef long count = 0
    cdef Py_UCS4 character
    for n in range(size):
        character = PyUnicode_READ(kind, data, n)
        if Py_UNICODE_ISSPACE(character):
            counted = False
        elif not counted and Py_UNICODE_ISALNUM(character):
            counted = True
            count += 1
    return count


cdef long words_in(unicode text) noexcept:
    """Return the number of words, as ``split`` counts them."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), n
    cdef bint inside = False
    cdef long count = 0
    for n in range(size):
        if Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, n)):
            inside = False
        elif not inside:
            inside = True
            count += 1
    return count


def counted(list texts not None, tuple ends not None, unicode commas not None, unicode stops not None):
    """Return four rows of integers; see ``_counted`` in ``main_content/features.py``."""
    cdef Py_ssize_t count = len(texts), number, size, n
    cdef bytes result = PyBytes_FromStringAndSize(NULL, 4 * count * sizeof(Py_ssize_t))
    cdef Py_ssize_t* rows = <Py_ssize_t*>PyBytes_AS_STRING(result)
    cdef unicode text
    cdef const char* letters
    for number in range(count):
        text = texts[number]
        size = PyUnicode_GET_LENGTH(text)
        rows[number] = size
        if PyUnicode_IS_ASCII(text):
            letters = <const char*>PyUnicode_DATA(text)
            rows[2 * count + number] = rows[3 * count + number] = 0
            for n in range(size):
                if letters[n] == c",":
                    rows[2 * count + number] += 1
                elif letters[n] == c"." and n + 1 < size and letters[n + 1] == c" ":
                    rows[3 * count + number] += 1
            while size and is_space(letters[size - 1]):
                size -= 1
            rows[count + number] = size > 0 and (
                letters[size - 1] == c"." or letters[size - 1] == c"!"
                or letters[size - 1] == c"?" or letters[size - 1] == c":"
                or (size > 1 and letters[size - 1] == c'"' and letters[size - 2] == c".")
            )
        else:
            rows[count + number] = text.rstrip().endswith(ends)
            rows[2 * count + number] = text.count(",") + sum(map(text.count, commas))
            rows[3 * count + number] = text.count(". ") + sum(map(text.count, stops))
    return result
