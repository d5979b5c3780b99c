# cython: language_level=3, boundscheck=False, wraparound=False
"""The most expensive passes over a page, compiled, on the nodes of libxml2.

Each function returns the same as its Python equivalent in the calling module. No function
changes the tree. Rare cases call back into Python.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport (
    PyUnicode_DATA,
    PyUnicode_DecodeASCII,
    PyUnicode_DecodeUTF8,
    PyUnicode_GET_LENGTH,
    PyUnicode_KIND,
    PyUnicode_READ,
)
from libc.string cimport memcpy, memset, strcmp, strlen, strncmp, strstr
from lxml.includes cimport etreepublic as api
from lxml.includes.etreepublic cimport _Document, _Element
from lxml.includes.tree cimport (
    XML_CDATA_SECTION_NODE,
    XML_ELEMENT_NODE,
    XML_TEXT_NODE,
    XML_XINCLUDE_END,
    XML_XINCLUDE_START,
    xmlAttr,
    xmlNode,
)

from lxml import etree

cdef extern from "libxml/xmlversion.h":
    const char* LIBXML_DOTTED_VERSION

cdef extern from *:
    unsigned int SOURCES_CHECKSUM  # set by setup.py

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    bint Py_UNICODE_ISALNUM(Py_UCS4 character)
    bint Py_UNICODE_ISSPACE(Py_UCS4 character)

api.import_lxml__etree()
# The layout of a node comes from the libxml2 headers at compile time.
cdef tuple HEADERS = tuple(map(int, LIBXML_DOTTED_VERSION.decode().split(".")[:2]))
if HEADERS != etree.LIBXML_VERSION[:2]:
    raise ImportError("compiled for another libxml2")

checksum = SOURCES_CHECKSUM

cdef array.array WHOLE = array.array("q"), DECIMAL = array.array("d")

include "bodies.pxi"
include "nodes.pxi"
include "texts.pxi"
include "elements.pxi"
include "signs.pxi"
include "names.pxi"
include "blocks.pxi"
include "writing.pxi"
