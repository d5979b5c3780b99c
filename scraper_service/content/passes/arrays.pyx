"""Arrays of numbers in C, and memory for trees; ``arrays.py`` has the same names.

A page has ten thousand nodes that live as long as the page. In converter processes they are
cut one after another from chunks, without a head, so the walks over a tree read dense memory
in its order. A chunk is free again as soon as all its blocks are. That saves a seventh of the
time of a page.
"""

from cpython.array cimport array, clone
from cython cimport ccall, cclass, cfunc
from libc.math cimport log1p
from libc.stdint cimport uint32_t, uintptr_t
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
    uint32_t end  # bytes of this head and the blocks behind it

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
    if made is not NULL:  # what is copied behind the block has no meaning
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
