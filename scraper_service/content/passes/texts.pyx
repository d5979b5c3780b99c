"""Scans of texts, and checks of the bytes of a page before its parsing."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_KIND, PyUnicode_READ, PyUnicode_WRITE
from libc.string cimport memchr

cdef extern from "Python.h":
    bint Py_UNICODE_ISALNUM(Py_UCS4 character)
    bint Py_UNICODE_ISPRINTABLE(Py_UCS4 character)
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)

cdef enum:
    NBSP = 0xA0
    ENTITY = 33  # characters of a character reference after its "&"


cdef str simple_text(str text, bint in_label):
    """Return the Markdown of a text without signs to escape; None if it may have any."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), n, length = 0
    cdef Py_UCS4 letter, before = 0
    cdef unsigned int bits = 0
    cdef bint is_changed = False
    for n in range(size):
        letter = PyUnicode_READ(kind, data, n)
        if letter <= 32 or letter == NBSP:
            if letter != 32:
                if letter != 10 and letter != 9 and letter != NBSP:
                    return None
                is_changed = True
                letter = 32
            if before == 32:
                is_changed = True
                continue
        elif letter >= 127:
            if (
                not Py_UNICODE_ISPRINTABLE(letter)
                or letter == 0xFFFC
                or 0xFE00 <= letter <= 0xFE0F
                or 0xE0100 <= letter <= 0xE01EF
            ):
                return None
        elif letter in "\\`*_<&~[]!" and may_be_markup(
            letter, before, kind, data, n, size, in_label
        ):
            return None
        bits |= <unsigned int>letter
        length += 1
        before = letter
    return spaced_once(kind, data, size, length, <Py_UCS4>bits) if is_changed else text


cdef bint may_be_markup(
    Py_UCS4 letter,
    Py_UCS4 before,
    int kind,
    void* data,
    Py_ssize_t at,
    Py_ssize_t size,
    bint in_label,
) noexcept:
    """Return False if a sign certainly needs no escape there."""
    cdef Py_UCS4 after = PyUnicode_READ(kind, data, at + 1) if at + 1 < size else 0
    cdef Py_ssize_t n
    if letter == 33:  # !
        return after == 91
    if letter == 91:  # [
        return in_label
    if letter == 93:  # ]
        return in_label or after == 40 or after == 58 or after == 91
    if letter == 95:  # _
        return not (Py_UNICODE_ISALNUM(before) and Py_UNICODE_ISALNUM(after))
    if letter == 60:  # <
        return after == 0 or after in "/!?" or is_ascii_letter(after)
    if letter == 126:  # ~
        return after == 0 or after == 126 or before == 126
    if letter == 38:  # &
        for n in range(at + 1, min(size, at + 2 + ENTITY)):
            if PyUnicode_READ(kind, data, n) == 59:
                return True
        return False
    return True


cdef inline bint is_ascii_letter(Py_UCS4 letter) noexcept:
    return 97 <= (<unsigned int>letter | 32) <= 122


cdef str spaced_once(
    int kind, void* data, Py_ssize_t size, Py_ssize_t length, Py_UCS4 largest
):
    """Return a text with a single space for each run of white space."""
    cdef str made = PyUnicode_New(length, largest)
    cdef int kind_made = PyUnicode_KIND(made)
    cdef void* data_made = PyUnicode_DATA(made)
    cdef Py_ssize_t n, at = 0
    cdef Py_UCS4 letter, before = 0
    for n in range(size):
        letter = PyUnicode_READ(kind, data, n)
        if letter <= 32 or letter == NBSP:
            letter = 32
            if before == 32:
                continue
        PyUnicode_WRITE(kind_made, data_made, at, letter)
        at += 1
        before = letter
    return made


cdef bint is_finished(str text) noexcept:
    """Return True if a collected paragraph is its Markdown already."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), n
    cdef Py_UCS4 letter, before = 0
    if not size:
        return True
    letter = PyUnicode_READ(kind, data, 0)
    if letter in "#-+*>=~|:0123456789":
        return False
    for n in range(size):
        letter = PyUnicode_READ(kind, data, n)
        if letter <= 32:
            if letter == 10 or (letter == 32 and before == 32):
                return False
        elif 0xE060 <= letter <= 0xE068:
            return False
        before = letter
    return True


cdef bint is_safe_url(str url) noexcept:
    """Return True if a URL is certainly safe between the parentheses of a link."""
    cdef int kind = PyUnicode_KIND(url)
    cdef void* data = PyUnicode_DATA(url)
    cdef Py_ssize_t n
    cdef Py_UCS4 letter
    for n in range(PyUnicode_GET_LENGTH(url)):
        letter = PyUnicode_READ(kind, data, n)
        if letter <= 32 or letter >= 127 or letter in "<>\\`|\"()[]&":
            return False
    return True


cdef str without_numbers(str names):
    """Return names without the numbers at the ends of their parts, often the same object."""
    cdef int kind = PyUnicode_KIND(names)
    cdef void* data = PyUnicode_DATA(names)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(names), at = 0, end, left = 0
    cdef Py_UCS4 letter
    cdef list parts = None
    while at + 1 < size:
        letter = PyUnicode_READ(kind, data, at)
        if letter != 45 and letter != 95 or not Py_UNICODE_ISDECIMAL(
            PyUnicode_READ(kind, data, at + 1)
        ):
            at += 1
            continue
        end = at + 2
        while end < size:
            letter = PyUnicode_READ(kind, data, end)
            if not (48 <= letter <= 57 or 97 <= letter <= 102):
                break
            end += 1
        if end == size or letter == 45 or letter == 95 or Py_UNICODE_ISSPACE(letter):
            if parts is None:
                parts = []
            parts.append(names[left:at])
            left = end
        at = end
    if parts is None:
        return names
    parts.append(names[left:])
    return "".join(parts)


def word_counts(str text not None):
    """Return the number of words with letters or digits, and of ideographs outside."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t n, words = 0, ideographs = 0
    cdef Py_UCS4 letter
    cdef bint is_counted = False
    for n in range(PyUnicode_GET_LENGTH(text)):
        letter = PyUnicode_READ(kind, data, n)
        if letter >= 0x3040 and (
            letter <= 0x30FF or 0x3400 <= letter <= 0x9FFF or 0xAC00 <= letter <= 0xD7AF
        ):
            ideographs += 1
            is_counted = False
        elif Py_UNICODE_ISSPACE(letter):
            is_counted = False
        elif not is_counted and Py_UNICODE_ISALNUM(letter):
            is_counted = True
            words += 1
    return words, ideographs


cdef extern from "Python.h":
    Py_UCS4 Py_UNICODE_TOLOWER(Py_UCS4 character)

ctypedef const unsigned char* Bytes

cdef enum:
    CHECKED = 64  # bytes that are checked at once

def may_be_forbidden(bytes data not None):
    """Return True if UTF-8 bytes may contain or reference characters that lxml refuses."""
    cdef Bytes start = <Bytes>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Bytes end = start + size
    cdef Bytes at = start
    if has_control(start, size):
        return True
    while at < end:
        at = <Bytes>memchr(at, 0xEF, end - at)
        if at is NULL:
            break
        if at[1] == 0xBF and at[2] >= 0xBE:
            return True
        at += 1
    at = start
    while at is not NULL and at < end:
        at = <Bytes>memchr(at, 38, end - at)  # &
        if at is NULL:
            break
        at += 1
        if at[0] == 35 and is_forbidden(at + 1):  # #
            return True
    return False


cdef bint has_control(Bytes at, Py_ssize_t size) noexcept:
    """Return True if bytes have a control character other than tab and line ends."""
    cdef unsigned char found = 0
    cdef int n
    while size >= CHECKED:
        for n in range(CHECKED):  # without a branch, for vector instructions
            found |= control(at[n])
        if found:
            return True
        at += CHECKED
        size -= CHECKED
    for n in range(<int>size):
        found |= control(at[n])
    return found != 0


cdef inline unsigned char control(unsigned char byte) noexcept:
    return ((byte < 32) & (byte != 9) & (byte != 10) & (byte != 13)) | (byte == 127)


cdef bint is_forbidden(Bytes at) noexcept:
    """Return True if the digits of a reference are of a forbidden character."""
    cdef bint is_hexadecimal = at[0] | 32 == 120  # x
    cdef unsigned int value = 0
    cdef int digits = 0
    if is_hexadecimal:
        at += 1
    while value < 0x110000:
        if 48 <= at[0] <= 57:
            value = value * (16 if is_hexadecimal else 10) + at[0] - 48
        elif is_hexadecimal and 97 <= at[0] | 32 <= 102:
            value = value * 16 + (at[0] | 32) - 87
        else:
            break
        digits += 1
        at += 1
    if not digits:
        return False
    if value < 32:
        return value != 9 and value != 10 and value != 13
    return value == 127 or value == 0xFFFE or value == 0xFFFF
