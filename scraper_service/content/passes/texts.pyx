"""Scans and the hash of texts, and checks of the bytes of a page before its parsing."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_KIND, PyUnicode_READ, PyUnicode_WRITE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy

cdef extern from "Python.h":
    bint Py_UNICODE_ISALNUM(Py_UCS4 character)
    bint Py_UNICODE_ISPRINTABLE(Py_UCS4 character)
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

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

cdef enum:
    BITS = 64
    PLANES = 32  # bits of a count

ctypedef const unsigned char* Letters

cdef struct Word:
    Letters start
    uint32_t size
    uint32_t sum

# See python_forms.py.
cdef uint64_t[4] SPREAD = [0x5CEDC835, 0xF39CC060, 0x7F4A7C15, 0x9E3779B9]
cdef uint32_t[256] CRC_TABLE
cdef uint32_t REMAINDER
cdef int BYTE, STEP
for BYTE in range(256):
    REMAINDER = BYTE
    for STEP in range(8):
        REMAINDER = (REMAINDER >> 1) ^ (0xEDB88320u if REMAINDER & 1 else 0)
    CRC_TABLE[BYTE] = REMAINDER


def simhash(str text not None):
    """Return 64 bits: those that most words of ``text`` have; 0 for no words."""
    cdef bytes lower = lower_bytes(text)
    if lower is None:
        lower = text.lower().encode(errors="replace")
    return simhash_of(lower)


cdef bytes lower_bytes(str text):
    """Return a text in lower case as UTF-8; None if that needs more than single letters."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), n
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size * (1 if text.isascii() else 4))
    cdef unsigned char* start = <unsigned char*>PyBytes_AS_STRING(made)
    cdef unsigned char* to = start
    cdef uint32_t letter
    for n in range(size):
        letter = <uint32_t>PyUnicode_READ(kind, data, n)
        if letter < 0x80:
            to[0] = letter + 32 if 65 <= letter <= 90 else letter
            to += 1
            continue
        if letter == 0x130 or letter == 0x3A3 or 0xD800 <= letter < 0xE000:
            return None  # the dotted I, the sigma, surrogates
        letter = <uint32_t>Py_UNICODE_TOLOWER(<Py_UCS4>letter)
        to += put_utf8(to, letter)
    return made[: to - start]


cdef object simhash_of(bytes text):
    cdef Letters at = <Letters>PyBytes_AS_STRING(text)
    cdef Letters end = at + PyBytes_GET_SIZE(text)
    cdef Letters start
    cdef Py_ssize_t capacity = 64, place
    cdef uint32_t crc, count = 0
    cdef uint64_t[PLANES] planes
    cdef uint64_t result = 0
    cdef uint32_t ones
    cdef int bit, plane
    cdef Word* known
    while capacity < end - at:  # at most a word for each two bytes
        capacity *= 2
    known = <Word*>calloc(capacity, sizeof(Word))
    if known is NULL:
        raise MemoryError
    for plane in range(PLANES):
        planes[plane] = 0
    while True:
        while at < end and is_space(at[0]):
            at += 1
        if at == end:
            break
        start = at
        crc = 0xFFFFFFFFu
        while at < end and not is_space(at[0]):
            crc = CRC_TABLE[(crc ^ at[0]) & 0xFF] ^ (crc >> 8)
            at += 1
        crc = ~crc
        place = crc & (capacity - 1)
        while known[place].size and not (
            known[place].sum == crc
            and known[place].size == at - start
            and memcmp(known[place].start, start, at - start) == 0
        ):
            place = (place + 1) & (capacity - 1)
        if not known[place].size:
            known[place] = Word(start, <uint32_t>(at - start), crc)
            count += 1
            add_bits(planes, spread(crc))
    free(known)
    for bit in range(BITS):
        ones = 0
        for plane in range(PLANES):
            ones |= <uint32_t>((planes[plane] >> bit) & 1) << plane
        if 2 * <uint64_t>ones > count:
            result |= <uint64_t>1 << bit
    return result


cdef inline bint is_space(unsigned char byte) noexcept:
    return byte == 32 or 9 <= byte <= 13


cdef inline uint64_t spread(uint64_t crc) noexcept:
    cdef uint64_t low = ((crc * SPREAD[0]) >> 32) + crc * SPREAD[1]
    return (low >> 8) + (crc * SPREAD[2] << 24) + (crc * SPREAD[3] << 56)


cdef inline void add_bits(uint64_t* planes, uint64_t bits) noexcept:
    """Count the bits; plane n has bit n of each count."""
    cdef int plane = 0
    cdef uint64_t carried
    while bits:
        carried = planes[plane] & bits
        planes[plane] ^= bits
        bits = carried
        plane += 1


cdef uint64_t ONES = 0x0101010101010101
cdef const char* HEXADECIMAL = "0123456789abcdef"


def json_text(str text not None):
    """Return a text as JSON in UTF-8."""
    cdef Py_ssize_t size, at = 0, length = 2, n
    cdef const unsigned char* letters = <const unsigned char*>PyUnicode_AsUTF8AndSize(
        text, &size
    )
    cdef bytes made
    cdef unsigned char* out
    while at < size:
        n = 8 if size - at >= 8 else 1
        if n == 8 and not have_escape(letters + at):
            length += 8
            at += 8
            continue
        for at in range(at, at + n):
            length += escaped_size(letters[at])
        at += 1
    made = PyBytes_FromStringAndSize(NULL, length)
    out = <unsigned char*>PyBytes_AS_STRING(made)
    out[0] = out[length - 1] = 34  # "
    out += 1
    at = 0
    while at < size:
        n = 8 if size - at >= 8 else 1
        if n == 8 and not have_escape(letters + at):
            memcpy(out, letters + at, 8)
            out += 8
            at += 8
            continue
        for at in range(at, at + n):
            out = put_letter(out, letters[at])
        at += 1
    return made


cdef inline bint have_escape(const unsigned char* at) noexcept:
    """Return True if eight bytes have a control character, a quotation mark or a backslash."""
    cdef uint64_t eight, quotation, backslash
    memcpy(&eight, at, 8)
    quotation = eight ^ (ONES * 34)
    backslash = eight ^ (ONES * 92)
    return (
        ((eight - ONES * 32) & ~eight)
        | ((quotation - ONES) & ~quotation)
        | ((backslash - ONES) & ~backslash)
    ) & (ONES * 128) != 0


cdef inline int escaped_size(unsigned char letter) noexcept:
    if letter >= 32:
        return 2 if letter == 34 or letter == 92 else 1
    return 2 if 8 <= letter <= 13 and letter != 11 else 6


cdef inline unsigned char* put_letter(unsigned char* out, unsigned char letter) noexcept:
    cdef int size = escaped_size(letter)
    if size == 1:
        out[0] = letter
        return out + 1
    out[0] = 92
    if letter >= 32:
        out[1] = letter
    elif size == 2:
        out[1] = b"btn_fr"[letter - 8]
    else:
        memcpy(out + 1, b"u00", 3)
        out[4] = HEXADECIMAL[letter >> 4]
        out[5] = HEXADECIMAL[letter & 15]
    return out + size


ctypedef const unsigned char* Bytes

cdef enum:
    CHECKED = 64  # bytes that are checked at once

cdef uint64_t NOT_ASCII = 0x8080808080808080


def is_utf8(bytes data not None):
    """Return True if ``data`` is valid UTF-8."""
    cdef Bytes at = <Bytes>PyBytes_AS_STRING(data)
    cdef Bytes end = at + PyBytes_GET_SIZE(data)
    cdef uint64_t eight
    cdef int size
    while at < end:
        if end - at >= 8:
            memcpy(&eight, at, 8)
            if not eight & NOT_ASCII:
                at += 8
                continue
        size = character_size(at)  # the byte after the last one is NUL
        if not size:
            return False
        at += size
    return True


cdef inline int character_size(Bytes at) noexcept:
    """Return the number of bytes of a character; 0 if it is invalid."""
    if at[0] < 0x80:
        return 1
    if at[0] < 0xC2:
        return 0
    if at[0] < 0xE0:
        return 2 if follows(at[1]) else 0
    if at[0] < 0xF0:
        if not follows(at[1]) or not follows(at[2]):
            return 0
        if (at[0] == 0xE0 and at[1] < 0xA0) or (at[0] == 0xED and at[1] >= 0xA0):
            return 0
        return 3
    if at[0] > 0xF4 or not (follows(at[1]) and follows(at[2]) and follows(at[3])):
        return 0
    if (at[0] == 0xF0 and at[1] < 0x90) or (at[0] == 0xF4 and at[1] >= 0x90):
        return 0
    return 4


cdef inline bint follows(unsigned char byte) noexcept:
    return byte & 0xC0 == 0x80


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
