"""The system calls that code of callers may use, as a filter of the kernel (seccomp).

Code gets files of its folder, threads, child processes and sockets of its own machine side.
Not on the list are, among others, all that would keep memory where no limit counts it
(``memfd_create``, System V IPC, message queues, shared anonymous memory), other namespaces,
sockets of networks, tracing, ``io_uring``, keys and BPF. A call that is not listed fails with
ENOSYS, so that libraries use an older one.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import functools
import os
import tempfile
from typing import Any, Final

LIBRARY: Final = "libseccomp.so.2"
INSTALL: Final = (
    f"the library {LIBRARY} is not installed (`apt-get install libseccomp2`)"
)
ALLOWED: Final = """
accept accept4 access alarm arch_prctl bind brk chdir chmod clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve exit
exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2
fdatasync flock fork fstat fstatfs fsync ftruncate futex futex_wait futex_waitv futex_wake
futimesat get_robust_list getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups
getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid ioctl kill link
linkat listen lseek lstat madvise membarrier mincore mkdir mkdirat mprotect mremap msync munmap
nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2
pkey_alloc pkey_free pkey_mprotect poll ppoll pread64 preadv preadv2 prlimit64 pselect6
pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg
rename renameat renameat2 restart_syscall riscv_flush_icache rmdir rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity
sched_getattr sched_getparam sched_getscheduler sched_yield select sendfile sendmmsg sendmsg
sendto set_robust_list set_tid_address setitimer setpgid setpriority setrlimit setsid
setsockopt shutdown sigaltstack stat statfs statx symlink symlinkat sysinfo tgkill time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime
utimensat utimes vfork wait4 waitid write writev
""".split()

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_OF_OTHER_KIND = 2  # an attribute: what happens with calls of another architecture
_OTHER, _EQUAL, _MASKED_EQUAL = 1, 4, 7  # comparisons of libseccomp
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_NAMESPACES = 0x7E020080  # the flags CLONE_NEW*
_AF_UNIX = 1
_SET_PIPE_SIZE, _SET_DUMPABLE = 1031, 4  # of fcntl and prctl


class _Comparison(ctypes.Structure):
    """A condition on an argument of a call (``struct scmp_arg_cmp``)."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


_FORBIDDEN = _ERRNO | errno.EACCES  # which programs report as such
#: What happens with calls by the value of an argument.
_CONDITIONS: Final = (
    ("socket", _ALLOW, (0, _EQUAL, _AF_UNIX, 0)),
    ("socket", _FORBIDDEN, (0, _OTHER, _AF_UNIX, 0)),
    ("socketpair", _ALLOW, (0, _EQUAL, _AF_UNIX, 0)),
    # Pipes of the default size only: those of all processes of a user share a limit.
    ("fcntl", _ALLOW, (1, _OTHER, _SET_PIPE_SIZE, 0)),
    # A process must stay readable for who measures it.
    ("prctl", _ALLOW, (0, _OTHER, _SET_DUMPABLE, 0)),
    ("clone", _ALLOW, (0, _MASKED_EQUAL, _NAMESPACES, 0)),
    *(
        ("mmap", _ALLOW, (3, _MASKED_EQUAL, _MAP_SHARED | _MAP_ANONYMOUS, either))
        for either in (0, _MAP_SHARED, _MAP_ANONYMOUS)  # not both
    ),
)


class FilterUnavailable(Exception):
    """Raised when the filter cannot be made. The text is a part of a sentence."""


@functools.cache
def filter_program() -> bytes:
    """Return the filter as a program of the kernel (BPF) for this machine.

    Raises :exc:`FilterUnavailable`.
    """
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError:
        raise FilterUnavailable(INSTALL) from None
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(_ERRNO | errno.ENOSYS))
    if not context:
        raise FilterUnavailable(f"{LIBRARY} cannot make a filter here")
    try:
        # By default only the thread ends, and nobody notices.
        library.seccomp_attr_set(context, _OF_OTHER_KIND, ctypes.c_uint32(_KILL))
        for name in ALLOWED:
            _add(library, context, name, _ALLOW)
        for name, action, condition in _CONDITIONS:
            _add(library, context, name, action, _Comparison(*condition))
        with tempfile.TemporaryFile() as file:
            failure = library.seccomp_export_bpf(context, file.fileno())
            if failure:
                raise FilterUnavailable(f"{LIBRARY}: {os.strerror(-failure)}")
            file.seek(0)
            return file.read()
    finally:
        library.seccomp_release(context)


def _add(
    library: Any, context: Any, name: str, action: int, *conditions: _Comparison
) -> None:
    """Add a rule for a call. One that this machine does not have is passed over."""
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number < 0:
        return
    array = (_Comparison * len(conditions))(*conditions)
    failure = library.seccomp_rule_add_array(
        context, action, number, len(conditions), array
    )
    if failure:
        raise FilterUnavailable(f"{LIBRARY}: {name}: {os.strerror(-failure)}")
