"""Arrays of numbers in C; ``arrays.py`` has the same names for lists."""

from cpython.array cimport array, clone
from cython cimport ccall, cclass, cfunc
from libc.math cimport log1p

ctypedef Py_ssize_t Whole
ctypedef double Real
ctypedef Py_ssize_t[::1] Wholes
ctypedef double[::1] Reals
ctypedef double[:, ::1] Grid

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
    cdef Py_ssize_t size = values.shape[0] * count
    cdef array sums = clone(REALS, count, True)
    if not count or not trees:
        return sums
    cdef array singles = clone(FLOATS, size, False), found = clone(INTS, count, False)
    cdef float* single = singles.data.as_floats
    cdef int* leaf = found.data.as_ints
    cdef double* total = sums.data.as_doubles
    cdef double* value = &values[0, 0]
    cdef double* of_leaves
    cdef float* own
    cdef float border
    cdef int bit
    for n in range(size):
        single[n] = <float>value[n]
    for tree in range(trees):
        for n in range(count):
            leaf[n] = 0
        for level in range(depth):
            own = single + rows[tree * depth + level] * count
            border = borders[tree * depth + level]
            bit = 1 << level
            for n in range(count):
                leaf[n] |= bit if own[n] > border else 0
        of_leaves = &leaves[tree, 0]
        for n in range(count):
            total[n] += of_leaves[leaf[n]]
    return sums
