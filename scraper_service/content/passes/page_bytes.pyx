"""Checks of the bytes of a page before its parsing; ``page_bytes.py`` has the same names."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcpy

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
        size = character_size(at)  # the byte behind the last one is NUL
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
    """Return True if UTF-8 bytes may hold or reference characters that lxml refuses."""
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
    """Return True if bytes have a control character besides tab and line ends."""
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
