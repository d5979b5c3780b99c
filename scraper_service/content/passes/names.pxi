# The learned scores of names and words; see ``main_content/learned_scores.py``.

cdef enum:
    MOST = 200  # characters


def name_parts(unicode names not None):
    """Return the parts of ASCII names; see ``main_content/learned_scores.py``."""
    cdef const unsigned char* text = <const unsigned char*>PyUnicode_DATA(names)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(names), start, end = 0
    cdef set parts = set()
    while next_part(text, size, &start, &end):
        parts.add(lowered(text, start, end))
    return frozenset(parts)


def score_names(unicode names not None, dict known not None, no_names):
    """Return the scores of ASCII names; see ``main_content/learned_scores.py``."""
    cdef const unsigned char* text = <const unsigned char*>PyUnicode_DATA(names)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(names), start, end = 0
    cdef double low = 0.0, high = 0.0, score
    cdef list rows = []
    while next_part(text, size, &start, &end):
        entry = known.get(lowered(text, start, end))
        if entry is not None:
            score = (<tuple>entry)[0]
            if score < low:
                low = score
            elif score > high:
                high = score
            row = (<tuple>entry)[1]
            if row >= 0 and row not in rows:
                rows.append(row)
    rows.sort()
    return (low, high, tuple(rows)) if low or high or rows else no_names


cdef inline bint next_part(const unsigned char* text, Py_ssize_t size,
                           Py_ssize_t* start, Py_ssize_t* end) noexcept:
    """Find the next part of at least two letters: ``[A-Z]?[a-z]+|[A-Z]+(?![a-z])``."""
    cdef Py_ssize_t at = end[0], first
    while at < size:
        first = at
        if is_upper(text[at]):
            at += 1
            if at < size and is_lower(text[at]):
                while at < size and is_lower(text[at]):
                    at += 1
            else:
                while at < size and is_upper(text[at]):
                    at += 1
                if at < size and is_lower(text[at]):
                    at -= 1
        elif is_lower(text[at]):
            while at < size and is_lower(text[at]):
                at += 1
        else:
            at += 1
            continue
        if at - first > 1:
            start[0], end[0] = first, at
            return True
    end[0] = size
    return False


cdef inline bint is_upper(unsigned char letter) noexcept:
    return c"A" <= letter <= c"Z"


cdef inline bint is_lower(unsigned char letter) noexcept:
    return c"a" <= letter <= c"z"


cdef inline unicode lowered(const unsigned char* text, Py_ssize_t start, Py_ssize_t end):
    """Return the first 200 characters of a part, in lower case."""
    cdef char[MOST] buffer
    cdef Py_ssize_t n
    end = min(end, start + MOST)
    for n in range(start, end):
        buffer[n - start] = text[n] | 32 if is_upper(text[n]) else text[n]
    return PyUnicode_DecodeASCII(buffer, end - start, NULL)


def score_start(unicode text not None, dict known not None, dict phrases not None, Py_ssize_t max_words,
                Py_ssize_t max_phrase_words):
    """Return the scores of an ASCII text; see ``main_content/learned_scores.py``."""
    cdef const unsigned char* letters = <const unsigned char*>PyUnicode_DATA(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), at = 0, start, count = 0, n
    cdef double first = 0.0, phrase = 0.0
    cdef char[MOST] buffer
    cdef Py_ssize_t used = 0
    cdef bint apart = False
    if size > MOST:
        raise ValueError("the text is too long")
    while at < size and count < max_words:
        while at < size and is_space(letters[at]):
            at += 1
        if at == size:
            break
        start = at
        while at < size and not is_space(letters[at]):
            at += 1
        count += 1
        score = known.get(lowered(letters, start, at))
        if score is not None:
            first += <double>score
    if count <= max_phrase_words:
        for n in range(size):
            if is_upper(letters[n]) or is_lower(letters[n]):
                if apart and used:
                    buffer[used] = c" "
                    used += 1
                apart = False
                buffer[used] = letters[n] | 32
                used += 1
            else:
                apart = True
        found = phrases.get(PyUnicode_DecodeASCII(buffer, used, NULL))
        if found is not None:
            phrase = found
    return first / (count if count else 1), phrase


def numbered(list scores not None):
    """Return five arrays; see ``_numbered`` in ``main_content/names.py``."""
    cdef Py_ssize_t count = len(scores), n, size = 0
    cdef array.array numbers = array.clone(WHOLE, count, False)
    cdef dict places = {}
    cdef list known = []
    cdef tuple own
    for n in range(count):
        entry = scores[n]
        key = <size_t><void*>entry
        place = places.get(key)
        if place is None:
            place = places[key] = len(known)
            known.append(entry)
            size += 1 + len(<tuple>(<tuple>entry)[2])
        numbers.data.as_longlongs[n] = place
    cdef array.array lows = array.clone(DECIMAL, len(known), False)
    cdef array.array highs = array.clone(DECIMAL, len(known), False)
    cdef array.array rows = array.clone(WHOLE, size, False)
    cdef array.array starts = array.clone(WHOLE, len(known), False)
    size = 0
    for n in range(len(known)):
        own = known[n]
        lows.data.as_doubles[n] = own[0]
        highs.data.as_doubles[n] = own[1]
        starts.data.as_longlongs[n] = size
        rows.data.as_longlongs[size] = -1
        size += 1
        for row in <tuple>own[2]:
            rows.data.as_longlongs[size] = row
            size += 1
    return numbers, lows, highs, rows, starts


def inherited(parent, low, high):
    """Return three arrays of doubles; see ``_inherited`` in ``main_content/names.py``."""
    cdef Py_buffer above, least, most
    cdef Py_ssize_t n, place
    cdef array.array lowest, highest, sums
    cdef double first, second
    PyObject_GetBuffer(parent, &above, PyBUF_SIMPLE)
    PyObject_GetBuffer(low, &least, PyBUF_SIMPLE)
    PyObject_GetBuffer(high, &most, PyBUF_SIMPLE)
    cdef Py_ssize_t count = above.len // sizeof(Py_ssize_t)
    lowest = array.clone(DECIMAL, count, False)
    highest = array.clone(DECIMAL, count, False)
    sums = array.clone(DECIMAL, count, False)
    for n in range(count):
        first, second = (<double*>least.buf)[n], (<double*>most.buf)[n]
        if n == 0:
            lowest.data.as_doubles[0] = first
            highest.data.as_doubles[0] = second
            sums.data.as_doubles[0] = first + second
            continue
        place = (<Py_ssize_t*>above.buf)[n]
        lowest.data.as_doubles[n] = min(first, lowest.data.as_doubles[place])
        highest.data.as_doubles[n] = max(second, highest.data.as_doubles[place])
        sums.data.as_doubles[n] = sums.data.as_doubles[place] + first + second
    PyBuffer_Release(&above)
    PyBuffer_Release(&least)
    PyBuffer_Release(&most)
    return lowest, highest, sums
