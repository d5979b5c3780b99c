"""Arrays of numbers in C, memory for trees, and lookups of words in tables of numbers.

A page has ten thousand nodes that live as long as the page. In converter processes they are
cut one after another from chunks, without a head, so the walks over a tree read dense memory
in its order. A chunk is free again as soon as all its blocks are. That saves a seventh of the
time of a page.

A table of words is a hash table with open addressing. It has the hashes of its words, not
the words.
"""

import re

from cpython.array cimport array, clone
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cython cimport ccall, cclass, cfunc
from libc.math cimport log1p
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset, strlen

from lxml import etree

ctypedef Py_ssize_t Whole
ctypedef double Real
ctypedef Py_ssize_t[::1] Wholes
ctypedef double[::1] Reals
ctypedef double[:, ::1] Grid

cdef enum:
    COLUMNS = 8

cdef array WHOLES = array("q" if sizeof(Py_ssize_t) == 8 else "l")
cdef array REALS = array("d")
cdef array FLOATS = array("f")
cdef array INTS = array("i")
cdef object NUMPY = None  # imported for the first table


cdef Wholes wholes(list values):
    cdef Wholes made = clone(WHOLES, len(values), False)
    cdef Py_ssize_t n
    for n in range(len(values)):
        made[n] = values[n]
    return made


cdef Wholes whole_zeros(Py_ssize_t count):
    return clone(WHOLES, count, True)


cdef Reals reals(list values):
    cdef Reals made = clone(REALS, len(values), False)
    cdef Py_ssize_t n
    for n in range(len(values)):
        made[n] = values[n]
    return made


cdef Reals zeros(Py_ssize_t count):
    return clone(REALS, count, True)


cdef Grid grid(Py_ssize_t rows, Py_ssize_t columns):
    global NUMPY
    if NUMPY is None:
        import numpy
        NUMPY = numpy
    return NUMPY.zeros((rows, columns))


def tree_sums(
    double[:, ::1] values not None,
    Py_ssize_t[::1] rows not None,
    float[::1] borders not None,
    double[:, ::1] leaves not None,
    Py_ssize_t depth,
):
    """Return for each column of ``values`` the sum of its leaves of all trees."""
    cdef Py_ssize_t count = values.shape[1], trees = leaves.shape[0], n, tree, level, row
    cdef Py_ssize_t start, padded = (count + COLUMNS - 1) // COLUMNS * COLUMNS
    cdef array sums = clone(REALS, count, True)
    if not count or not trees:
        return sums
    cdef array singles = clone(FLOATS, values.shape[0] * padded, True)
    cdef array found = clone(INTS, padded, False)
    cdef float* single = singles.data.as_floats
    cdef int* leaf = found.data.as_ints
    cdef double* total = sums.data.as_doubles
    cdef double* value = &values[0, 0]
    cdef double* of_leaves
    cdef float* own
    cdef float border
    cdef int bit
    for row in range(values.shape[0]):
        for n in range(count):
            single[row * padded + n] = <float>value[row * count + n]
    for tree in range(trees):
        memset(leaf, 0, padded * sizeof(int))
        for level in range(depth):
            own = single + rows[tree * depth + level] * padded
            border = borders[tree * depth + level]
            bit = 1 << level
            start = 0
            while start < padded:  # a range with such a step would be one of Python
                for n in range(COLUMNS):  # so many at once, for vector instructions
                    leaf[start + n] |= bit if own[start + n] > border else 0
                start += COLUMNS
        of_leaves = &leaves[tree, 0]
        for n in range(count):
            total[n] += of_leaves[leaf[n]]
    return sums


cdef extern from "dlfcn.h":
    void* dlopen(const char* path, int flags)
    void* dlsym(void* library, const char* name)
    int RTLD_LAZY

cdef extern from "stdlib.h":
    int posix_memalign(void** made, size_t alignment, size_t size) nogil

ctypedef int (*Setup)(
    void (*)(void*) noexcept nogil,
    void* (*)(size_t) noexcept nogil,
    void* (*)(void*, size_t) noexcept nogil,
    char* (*)(const char*) noexcept nogil,
) noexcept nogil

cdef struct Chunk:
    Chunk* following  # the next free chunk
    uint32_t used  # blocks that are not free yet
    uint32_t end  # bytes of this head and the blocks after it

cdef enum:
    CHUNK_BYTES = 1 << 16
    CHUNKS = 512  # further blocks are of malloc
    LARGEST = 512  # bytes; larger blocks are of malloc, too

cdef char* region = NULL
cdef char* region_end = NULL
cdef char* unused = NULL  # the chunks from here on were never in use
cdef Chunk* current = NULL
cdef Chunk* free_chunks = NULL


def keep_trees_together():
    """Let libxml2 cut small blocks from chunks; return True if it does.

    Call this in processes that use libxml2 in a single thread.
    """
    global region, region_end, unused
    cdef void* made = NULL
    cdef bytes path = etree.__file__.encode()
    cdef void* library = dlopen(path, RTLD_LAZY)  # it is loaded already
    cdef Setup setup = <Setup>dlsym(library, "xmlMemSetup") if library else NULL
    if region is not NULL:
        return True
    if setup is NULL or posix_memalign(&made, CHUNK_BYTES, CHUNKS * CHUNK_BYTES):
        return False
    region = unused = <char*>made
    region_end = region + CHUNKS * CHUNK_BYTES
    # Blocks from before are outside of the region, and go back to malloc.
    return setup(free_block, new_block, resized_block, copied_text) == 0


cdef inline bint is_in_region(void* block) noexcept nogil:
    return region <= <char*>block < region_end


cdef inline Chunk* chunk_of(void* block) noexcept nogil:
    return <Chunk*>(<uintptr_t>block & ~<uintptr_t>(CHUNK_BYTES - 1))


cdef bint take_chunk() noexcept nogil:
    """Make a free chunk the current one; return False if there is none."""
    global current, free_chunks, unused
    if free_chunks is not NULL:
        current = free_chunks
        free_chunks = current.following
    elif unused < region_end:
        current = <Chunk*>unused
        unused += CHUNK_BYTES
    else:
        return False
    current.used = 0
    current.end = sizeof(Chunk)
    return True


cdef void* new_block(size_t size) noexcept nogil:
    cdef size_t whole
    cdef char* made
    if size > LARGEST:
        return malloc(size)
    whole = (max(size, <size_t>1) + 7) & ~<size_t>7
    if current is NULL or current.end + whole > CHUNK_BYTES:
        if not take_chunk():
            return malloc(size)
    made = <char*>current + current.end
    current.end += <uint32_t>whole
    current.used += 1
    return made


cdef void free_block(void* block) noexcept nogil:
    global free_chunks
    cdef Chunk* chunk
    if not is_in_region(block):
        free(block)
        return
    chunk = chunk_of(block)
    chunk.used -= 1
    if chunk.used:
        return
    if chunk is current:
        chunk.end = sizeof(Chunk)
    else:
        chunk.following = free_chunks
        free_chunks = chunk


cdef void* resized_block(void* block, size_t size) noexcept nogil:
    cdef void* made
    cdef size_t rest
    if block is NULL:
        return new_block(size)
    if not is_in_region(block):
        return realloc(block, size)
    made = new_block(size)
    if made is not NULL:  # what is copied after the block has no meaning
        rest = <char*>chunk_of(block) + CHUNK_BYTES - <char*>block
        memmove(made, block, min(size, rest, <size_t>LARGEST))
        free_block(block)
    return made


cdef char* copied_text(const char* text) noexcept nogil:
    cdef size_t size = strlen(text) + 1
    cdef void* made = new_block(size)
    if made is not NULL:
        memcpy(made, text, size)
    return <char*>made


cdef enum:
    MAX_LETTERS = 200  # characters examined of a text or of names
    MAX_BYTES = 5 * MAX_LETTERS  # of them with spaces, in UTF-8
    REMEMBERED = 4_000  # names of a process whose scores are kept

cdef object ANY_WORD = re.compile(r"[^\W\d_]+")


cdef struct Slot:
    uint64_t hashed  # 0 for an empty slot
    double number


cdef class WordTable:
    """Numbers by word; the words are in lower case."""

    cdef Slot* slots
    cdef Py_ssize_t mask
    cdef dict numbers

    def __cinit__(self, numbers):
        cdef Py_ssize_t size = 16
        cdef bytes word
        self.numbers = dict(numbers)
        while size < 3 * len(self.numbers):
            size *= 2
        self.slots = <Slot*>PyMem_Calloc(size, sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError
        self.mask = size - 1
        for known, number in self.numbers.items():
            word = known.encode()
            self._add(hash_of(word, len(word)), number)

    cdef int _add(self, uint64_t hashed, double number) except -1:
        cdef Py_ssize_t at = hashed & self.mask
        while self.slots[at].hashed:
            if self.slots[at].hashed == hashed:
                raise ValueError("two words with one hash")
            at = (at + 1) & self.mask
        self.slots[at] = Slot(hashed, number)
        return 0

    def __dealloc__(self):
        PyMem_Free(self.slots)

    cdef inline Slot* find(self, const unsigned char* word, Py_ssize_t size) noexcept:
        """Return the slot of a word; NULL for an unknown word."""
        cdef uint64_t hashed = hash_of(word, size)
        cdef Py_ssize_t at = hashed & self.mask
        while self.slots[at].hashed:
            if self.slots[at].hashed == hashed:
                return &self.slots[at]
            at = (at + 1) & self.mask
        return NULL


cdef inline uint64_t hash_of(const unsigned char* word, Py_ssize_t size) noexcept:
    """Return the hash FNV-1a, with its high bits mixed into the low ones; never 0.

    It stands for the word: another word with the same 64 bits is not to be expected, and
    would be scored as the known one.
    """
    cdef uint64_t hashed = 14695981039346656037u
    cdef Py_ssize_t n
    for n in range(size):
        hashed = (hashed ^ word[n]) * <uint64_t>1099511628211u
    return (hashed ^ (hashed >> 32)) or 1


cdef Py_ssize_t next_part(
    int kind, void* data, Py_ssize_t at, Py_ssize_t size, unsigned char* part
) noexcept:
    """Write the next part of a name in lower case, and return the position after it.

    A part is a run of small letters with at most one capital before it, or a run of
    capitals. The part is empty after the last one; ``part[MAX_LETTERS]`` is its size.
    """
    cdef Py_ssize_t end, n
    while at < size:
        end = at
        if is_lower(kind, data, at):
            end = lower_end(kind, data, at, size)
        elif is_upper(kind, data, at):
            end = at + 1
            if end < size and is_lower(kind, data, end):
                end = lower_end(kind, data, end, size)
            else:
                while end < size and is_upper(kind, data, end):
                    end += 1
                if end < size and is_lower(kind, data, end):
                    end -= 1
        if end - at > 1:
            for n in range(at, end):
                part[n - at] = <unsigned char>(<unsigned int>PyUnicode_READ(kind, data, n) | 32)
            part[MAX_LETTERS] = <unsigned char>(end - at)
            return end
        at = end if end > at else at + 1
    part[MAX_LETTERS] = 0
    return at


cdef inline bint is_lower(int kind, void* data, Py_ssize_t at) noexcept:
    return 97 <= PyUnicode_READ(kind, data, at) <= 122


cdef inline bint is_upper(int kind, void* data, Py_ssize_t at) noexcept:
    return 65 <= PyUnicode_READ(kind, data, at) <= 90


cdef inline Py_ssize_t lower_end(
    int kind, void* data, Py_ssize_t at, Py_ssize_t size
) noexcept:
    while at < size and is_lower(kind, data, at):
        at += 1
    return at


def name_parts(str names):
    """Return the words in class names and ids, in lower case."""
    cdef int kind = PyUnicode_KIND(names)
    cdef void* data = PyUnicode_DATA(names)
    cdef Py_ssize_t size = min(PyUnicode_GET_LENGTH(names), MAX_LETTERS), at = 0
    cdef unsigned char part[MAX_LETTERS + 1]
    cdef list parts = []
    while True:
        at = next_part(kind, data, at, size, part)
        if not part[MAX_LETTERS]:
            return parts
        parts.append(PyUnicode_DecodeUTF8(<const char*>part, part[MAX_LETTERS], NULL))


cdef list part_numbers(str names, WordTable table):
    cdef int kind = PyUnicode_KIND(names)
    cdef void* data = PyUnicode_DATA(names)
    cdef Py_ssize_t size = min(PyUnicode_GET_LENGTH(names), MAX_LETTERS), at = 0
    cdef unsigned char part[MAX_LETTERS + 1]
    cdef Slot* slot
    cdef list numbers = []
    while True:
        at = next_part(kind, data, at, size, part)
        if not part[MAX_LETTERS]:
            return numbers
        slot = table.find(part, part[MAX_LETTERS])
        if slot is not NULL:
            numbers.append(<Py_ssize_t>slot.number)


cdef class NameScores:
    """The learned scores of names."""

    cdef readonly double low
    cdef readonly double high
    cdef readonly double kind_low
    cdef readonly double kind_high
    cdef Py_ssize_t page
    cdef Py_ssize_t count
    cdef Py_ssize_t* found

    def __dealloc__(self):
        PyMem_Free(self.found)

    @property
    def rows(self):
        """The rows of the parts of the names."""
        return tuple([self.found[n] for n in range(self.count)])

    cpdef NameScores joined(self, NameScores other):
        """Return the scores of the names of both."""
        cdef NameScores made
        made = made_scores(
            min(self.low, other.low), max(self.high, other.high), self.count + other.count
        )
        if self.count:
            memcpy(made.found, self.found, self.count * sizeof(Py_ssize_t))
        if other.count:
            memcpy(made.found + self.count, other.found, other.count * sizeof(Py_ssize_t))
        return made

    cpdef take_kind(self, Grid table, Reals chances, Py_ssize_t page):
        """Compute ``kind_low`` and ``kind_high`` once for each page."""
        cdef Py_ssize_t n, group
        cdef double score
        if self.page == page:
            return
        self.page = page
        self.kind_low = self.kind_high = 0.0
        for n in range(self.count):
            score = 0.0
            for group in range(chances.shape[0]):
                score += table[self.found[n], group] * chances[group]
            self.kind_low = min(self.kind_low, score)
            self.kind_high = max(self.kind_high, score)


cdef NameScores made_scores(double low, double high, Py_ssize_t count):
    cdef NameScores made = NameScores.__new__(NameScores)
    if count:
        made.found = <Py_ssize_t*>PyMem_Malloc(count * sizeof(Py_ssize_t))
        if made.found is NULL:
            raise MemoryError
    made.low = low
    made.high = high
    made.count = count
    return made


cdef Py_ssize_t LATEST_PAGE = 0


cdef Py_ssize_t next_page() noexcept:
    """Return a number that no page before had."""
    global LATEST_PAGE
    LATEST_PAGE += 1
    return LATEST_PAGE


cdef class PartScores:
    """The learned scores of the parts of names."""

    cdef WordTable parts
    cdef Reals scores
    cdef Wholes rows
    cdef readonly NameScores none
    cdef dict known

    def __init__(self, dict parts not None, list scores, list rows):
        self.known = {}
        self.parts = WordTable(parts)
        self.scores = reals(scores)
        self.rows = wholes(rows)
        self.none = made_scores(0.0, 0.0, 0)

    cpdef NameScores of(self, str names):
        """Return the scores of names."""
        found = self.known.get(names)
        if found is None:
            found = self.made(names)
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            self.known[names] = found
        return found

    cdef NameScores made(self, str names):
        cdef int kind = PyUnicode_KIND(names)
        cdef void* data = PyUnicode_DATA(names)
        cdef Py_ssize_t size = min(PyUnicode_GET_LENGTH(names), MAX_LETTERS), at = 0
        cdef unsigned char part[MAX_LETTERS + 1]
        cdef Py_ssize_t found[MAX_LETTERS]  # in ascending order
        cdef Py_ssize_t count = 0, number, row, n
        cdef double low = 0.0, high = 0.0, score
        cdef Slot* slot
        cdef NameScores scores
        while True:
            at = next_part(kind, data, at, size, part)
            if not part[MAX_LETTERS]:
                break
            slot = self.parts.find(part, part[MAX_LETTERS])
            if slot is NULL:
                continue
            number = <Py_ssize_t>slot.number
            score = self.scores[number]
            if score < low:
                low = score
            elif score > high:
                high = score
            row = self.rows[number]
            if row < 0:
                continue
            n = count
            while n and found[n - 1] > row:
                n -= 1
            if n and found[n - 1] == row:
                continue
            memmove(&found[n + 1], &found[n], (count - n) * sizeof(Py_ssize_t))
            found[n] = row
            count += 1
        if not (low or high or count):
            return self.none
        scores = made_scores(low, high, count)
        if count:
            memcpy(scores.found, found, count * sizeof(Py_ssize_t))
        return scores


cdef tuple start_scores(
    str text,
    WordTable words,
    WordTable phrases,
    Py_ssize_t max_words,
    Py_ssize_t max_phrase,
):
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t size = min(PyUnicode_GET_LENGTH(text), MAX_LETTERS)
    cdef unsigned char word[MAX_BYTES]
    cdef unsigned char phrase[MAX_BYTES]
    cdef Py_ssize_t at = 0, length = 0, of_phrase = 0, count = 0
    cdef Py_UCS4 letter
    cdef bint is_apart = False
    cdef double first = 0.0
    cdef Slot* slot
    while count < max_words:
        while at < size and Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, at)):
            at += 1
        if at == size:
            break
        length = 0
        while at < size:
            letter = PyUnicode_READ(kind, data, at)
            if letter > 127:
                if Py_UNICODE_ISSPACE(letter):
                    break
                if letter == 0x130 or letter == 0x3A3 or 0xD800 <= letter < 0xE000:
                    # The dotted I, the sigma, surrogates.
                    return any_start_scores(text, words, phrases, max_words, max_phrase)
                letter = Py_UNICODE_TOLOWER(letter)
                length += put_utf8(&word[length], letter)
                at += 1
                if not Py_UNICODE_ISALNUM(letter) or Py_UNICODE_ISDECIMAL(letter):
                    is_apart = True
                elif count < max_phrase:
                    if is_apart and of_phrase:
                        phrase[of_phrase] = 32
                        of_phrase += 1
                    of_phrase += put_utf8(&phrase[of_phrase], letter)
                    is_apart = False
                continue
            if is_white(letter):
                break
            if 65 <= letter <= 90:
                letter = <Py_UCS4>(<unsigned int>letter | 32)
            word[length] = <unsigned char>letter
            length += 1
            at += 1
            if not 97 <= letter <= 122:
                is_apart = True
            elif count < max_phrase:
                if is_apart and of_phrase:
                    phrase[of_phrase] = 32
                    of_phrase += 1
                phrase[of_phrase] = <unsigned char>letter
                of_phrase += 1
                is_apart = False
        is_apart = True
        count += 1
        slot = words.find(word, length)
        if slot is not NULL:
            first += slot.number
    slot = phrases.find(phrase, of_phrase) if count <= max_phrase else NULL
    return first / (count or 1), slot.number if slot is not NULL else 0.0


cdef inline int put_utf8(unsigned char* to, uint32_t letter) noexcept:
    """Write a letter, and return its number of bytes."""
    if letter < 0x80:
        to[0] = letter
        return 1
    if letter < 0x800:
        to[0] = 0xC0 | (letter >> 6)
        to[1] = 0x80 | (letter & 0x3F)
        return 2
    if letter < 0x10000:
        to[0] = 0xE0 | (letter >> 12)
        to[1] = 0x80 | ((letter >> 6) & 0x3F)
        to[2] = 0x80 | (letter & 0x3F)
        return 3
    to[0] = 0xF0 | (letter >> 18)
    to[1] = 0x80 | ((letter >> 12) & 0x3F)
    to[2] = 0x80 | ((letter >> 6) & 0x3F)
    to[3] = 0x80 | (letter & 0x3F)
    return 4


cdef inline bint is_white(Py_UCS4 letter) noexcept:
    return letter == 32 or 9 <= letter <= 13 or 28 <= letter <= 31


cdef tuple any_start_scores(
    str text,
    WordTable words,
    WordTable phrases,
    Py_ssize_t max_words,
    Py_ssize_t max_phrase,
):
    """Return the same for a text with letters whose small form depends on others."""
    cdef list found = text[:MAX_LETTERS].lower().split(None, max_words)[:max_words]
    cdef double first = 0.0
    for word in found:
        number = words.numbers.get(word)
        if number is not None:
            first += number
    phrase = 0.0
    if len(found) <= max_phrase:
        parts = ANY_WORD.findall(" ".join(found))
        phrase = phrases.numbers.get(" ".join(parts), 0.0)
    return first / (len(found) or 1), phrase
