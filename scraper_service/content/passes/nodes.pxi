# The ``text``, ``tail``, ``tag`` and ``get`` of lxml, without creating element objects.

cdef inline xmlNode* text_from(xmlNode* node) noexcept:
    """Return the text node at or behind ``node``, unless another node comes first."""
    while node is not NULL:
        if node.type == XML_TEXT_NODE or node.type == XML_CDATA_SECTION_NODE:
            return node
        if node.type != XML_XINCLUDE_START and node.type != XML_XINCLUDE_END:
            return NULL
        node = node.next
    return NULL


cdef inline bint is_blank(const char* text) noexcept:
    """Return True if the text contains only ASCII white space."""
    while text[0] == 32 or 9 <= text[0] <= 13 or 28 <= text[0] <= 31:
        text += 1
    return text[0] == 0


cdef inline bint is_space(unsigned char letter) noexcept:
    return letter == 32 or 9 <= letter <= 13 or 28 <= letter <= 31


cdef unicode text_at(xmlNode* first):
    """Return the joined text nodes that begin at ``first``; None if blank."""
    cdef xmlNode* other
    cdef unicode text
    if first is NULL:
        return None
    other = text_from(first.next)
    if other is NULL:
        if first.content is NULL or is_blank(<const char*>first.content):
            return None
        text = decoded(<const char*>first.content)
        return None if not PyUnicode_IS_ASCII(text) and text.isspace() else text
    parts = []
    while first is not NULL:
        if first.content is not NULL:
            parts.append(decoded(<const char*>first.content))
        first = text_from(first.next)
    text = "".join(parts)
    return None if not text or text.isspace() else text


cdef unicode full_text(xmlNode* first):
    """Return the joined text nodes that begin at ``first``, even if blank."""
    cdef xmlNode* other = text_from(first.next)
    if other is NULL:
        return decoded(<const char*>first.content) if first.content is not NULL else ""
    parts = []
    while first is not NULL:
        if first.content is not NULL:
            parts.append(decoded(<const char*>first.content))
        first = text_from(first.next)
    return "".join(parts)


cdef inline unicode decoded(const char* text):
    return PyUnicode_DecodeUTF8(text, strlen(text), NULL)


cdef inline xmlAttr* attribute(xmlNode* node, const char* name) noexcept:
    cdef xmlAttr* own = node.properties
    while own is not NULL:
        if own.ns is NULL and strcmp(<const char*>own.name, name) == 0:
            return own
        own = own.next
    return NULL


cdef inline unicode value_of(xmlNode* node, xmlAttr* own):
    cdef xmlNode* text = <xmlNode*>own.children
    if text is NULL:
        return ""
    if text.next is NULL and text.type == XML_TEXT_NODE and text.content is not NULL:
        return decoded(<const char*>text.content)
    return api.attributeValue(node, own)


cdef inline unicode tag_of(xmlNode* node):
    return api.namespacedName(node)


cdef inline xmlNode* following(xmlNode* node, xmlNode* root) noexcept:
    """Return the node behind ``node`` in document order; NULL at the end of ``root``."""
    if node.type == XML_ELEMENT_NODE and node.children is not NULL:
        return node.children
    while node is not root:
        if node.next is not NULL:
            return node.next
        node = node.parent
    return NULL


cdef inline xmlNode* first_element(xmlNode* node) noexcept:
    while node is not NULL and node.type != XML_ELEMENT_NODE:
        node = node.next
    return node
