# Checks on the bytes of a response.


def is_utf8(bytes data not None):
    """Return True if ``data`` is valid UTF-8, without creating a string."""
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef const unsigned char* end = at + len(data)
    cdef unsigned char first, least, most
    cdef unsigned long long eight
    cdef Py_ssize_t more
    while at < end:
        if end - at >= 8:
            memcpy(&eight, at, 8)
            if not eight & 0x8080808080808080ULL:
                at += 8
                continue
        first = at[0]
        at += 1
        if first < 0x80:
            continue
        # The first byte limits the second: no overlong forms, no surrogates, nothing above
        # U+10FFFF.
        least, most = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                least = 0xA0
            elif first == 0xED:
                most = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                least = 0x90
            elif first == 0xF4:
                most = 0x8F
        else:
            return False
        if end - at < more or not least <= at[0] <= most:
            return False
        at += 1
        for _ in range(more - 1):
            if at[0] & 0xC0 != 0x80:
                return False
            at += 1
    return True


def has_one_of(bytes data not None, bytes wanted not None):
    """Return True if ``data`` contains one of the bytes ``wanted``."""
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef const unsigned char* end = at + len(data)
    cdef unsigned char[256] known
    memset(known, 0, 256)
    for value in wanted:
        known[<unsigned char>value] = 1
    while at < end:
        if known[at[0]]:
            return True
        at += 1
    return False
