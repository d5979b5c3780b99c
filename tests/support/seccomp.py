"""Run a command under a seccomp profile of Docker, by libseccomp.

``python seccomp.py PROFILE COMMAND...``, with the standard library alone: it runs inside of
the image. The process must have ``no_new_privs``, and counts as without capabilities.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
from typing import Any

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
KINDS = {"SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4}
KINDS |= {"SCMP_CMP_GE": 5, "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}
UNKNOWN = -1  # __NR_SCMP_ERROR
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class _Comparison(ctypes.Structure):
    _fields_ = [  # the form of ctypes
        ("index", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


def action(name: str, number: int) -> int:
    """Return an action of libseccomp. Raise :exc:`KeyError` for others than these two."""
    return {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_ERRNO": ERRNO | number}[name]


def load(profile: dict[str, Any]) -> None:
    """Apply a profile to this process and its children. Raise :exc:`OSError`."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    pointer = ctypes.c_void_p
    default = action(profile["defaultAction"], profile.get("defaultErrnoRet", 1))
    context = pointer(library.seccomp_init(ctypes.c_uint32(default)))
    here = ARCHITECTURES[platform.machine()]
    for rule in profile["syscalls"]:
        includes = rule.get("includes", {})
        if here not in includes.get("arches", [here]) or includes.get("caps"):
            continue
        done = ctypes.c_uint32(action(rule["action"], rule.get("errnoRet", 1)))
        comparisons = [
            _Comparison(
                each["index"], KINDS[each["op"]], each["value"], each.get("valueTwo", 0)
            )
            for each in rule.get("args") or ()
        ]
        array = (_Comparison * len(comparisons))(*comparisons)
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number == UNKNOWN:  # of another architecture, or newer than the library
                continue
            code = library.seccomp_rule_add_array(
                context, done, number, len(comparisons), array
            )
            # The default action and pseudo numbers of other architectures need no rule.
            if code and done.value != default and number >= 0:
                raise OSError(-code, f"{name}: {os.strerror(-code)}")
    if code := library.seccomp_load(context):
        raise OSError(-code, os.strerror(-code))


if __name__ == "__main__":
    load(json.loads(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # no shell is wanted
