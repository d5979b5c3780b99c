"""The sandbox of a program with code of a caller, by bubblewrap and seccomp.

The program has its own user, network, process and IPC namespaces, no capabilities, no
environment, and no file but those of its interpreter, of Playwright and of two empty folders
in memory. It has no ``/proc``: the memory of other processes cannot be named.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import functools
import importlib.util
import os
import random
import re
import resource
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scraper_service.options.limits import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


PROGRAM: Final = "bwrap"
INSTALL: Final = (
    "the program bwrap is not installed (`apt-get install bubblewrap libseccomp2`)"
)
#: Bytes of all files that a program writes, and bytes of one of them.
MOST_FILE_BYTES: Final = 64 * 2**20
#: Where a program finds its parts and the socket of its browser.
SITE, PREFIX, SOCKET = "/opt/site", "/opt/python", "/run/browser"
#: Its empty folder, and the file system of it.
FOLDER, FILES = "/tmp/work", "/tmp"  # noqa: S108   # in the sandbox
ENDPOINT: Final = f"ws+unix://{SOCKET}:/"
HEAP_MB: Final = 256  # of JavaScript

_PACKAGES = ("playwright", "pyee", "greenlet", "typing_extensions")
_HERE = Path(__file__).parent
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
_NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net"),
    *("--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"),
    *("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session", "--clearenv"),
)


def why_no_program() -> str | None:
    """Return why no program can be isolated, as far as files show it; None if it can."""
    if shutil.which(PROGRAM) is None:
        return INSTALL
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return "the kernel does not list the children of processes in /proc"
    return None


def command(
    language: str, data_dir: Path, socket: Path | None, *options: str
) -> list[str]:
    """Return the arguments that start a program with code in a language.

    ``socket`` leads to the browser. ``options`` are further ones of bubblewrap. A folder that
    contains ``data_dir`` shows an empty folder instead.
    """
    binds = dict(_binds())
    found = [shutil.which(PROGRAM) or PROGRAM, *_NAMESPACES, *options]
    for source, target in binds.items():
        found += ("--ro-bind", str(source), target)
    found += _links()
    found += _covers(binds, data_dir)
    found += ("--size", str(MOST_FILE_BYTES), "--tmpfs", FILES, "--dir", FOLDER)
    for device in ("/dev/null", "/dev/urandom"):
        found += ("--dev-bind", device, device)
    if socket is not None:
        found += ("--ro-bind", str(socket), SOCKET)
    found += ("--setenv", "HOME", FILES, "--setenv", "LD_LIBRARY_PATH", f"{PREFIX}/lib")
    found += ("--remount-ro", "/", "--chdir", FOLDER, "--")
    return [*found, *_interpreter(language)]


def _interpreter(language: str) -> Sequence[str]:
    driver = f"{SITE}/playwright/driver"
    if language == NODE:
        heap = f"--max-old-space-size={HEAP_MB}"
        return (f"{driver}/node", heap, "/opt/run.js", f"{driver}/package")
    # Isolated, without packages of the machine, and with output that is never held back.
    options = ("-I", "-S", "-u", "-X", "utf8")
    return (f"{PREFIX}/bin/python3", *options, "/opt/run.py", SITE)


def _binds() -> Iterator[tuple[Path, str]]:
    """Yield what the interpreters need, each with its path in the sandbox."""
    for folder in map(Path, _LIBRARIES):
        if folder.is_dir() and not folder.is_symlink():
            yield from ((each, str(each)) for each in _libraries(folder))
    cache = Path("/etc/ld.so.cache")
    if cache.exists():
        yield cache, str(cache)
    yield Path(os.path.realpath(sys.executable)), f"{PREFIX}/bin/python3"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    yield Path(sysconfig.get_path("stdlib")), f"{PREFIX}/lib/{version}"
    names = map(sysconfig.get_config_var, ("LIBDIR", "INSTSONAME"))
    library = Path(*(name or "none" for name in names))
    if library.suffix != ".a" and library.is_file():
        yield library, f"{PREFIX}/lib/{library.name}"
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            path = Path(found.origin)
            path = path.parent if path.name == "__init__.py" else path
            yield path, f"{SITE}/{path.name}"
    yield _HERE / "run_node.js", "/opt/run.js"
    yield _HERE / "run_python.py", "/opt/run.py"


def _libraries(folder: Path) -> Iterator[Path]:
    """Yield the libraries of a folder: on Debian those of this machine's kind only."""
    own = folder / (sysconfig.get_config_var("MULTIARCH") or "none")
    if own.is_dir():
        yield own
        yield from folder.glob("ld-linux*")
    elif not folder.name.endswith("64") and any(folder.glob("*-linux-gnu")):
        yield from folder.glob("*-linux-gnu")
        yield from folder.glob("ld-linux*")
    else:
        yield folder


def _links() -> Iterator[str]:
    for folder in map(Path, _LIBRARIES):
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))


def _covers(binds: dict[Path, str], data_dir: Path) -> Iterator[str]:
    """Yield the arguments that hide what a bound folder has beside what it is bound for.

    That is the data of the service, and packages of the machine beside Python's own.
    """
    own = Path(sysconfig.get_path("stdlib"))
    packages = (own / name for name in ("site-packages", "dist-packages"))
    hidden = [data_dir, *(each for each in packages if each.is_dir())]
    for each in (Path(os.path.realpath(path)) for path in hidden):
        for source, target in binds.items():
            real = Path(os.path.realpath(source))
            if each.is_relative_to(real):
                path = str(target / each.relative_to(real))
                yield from ("--size", "4096", "--tmpfs", path, "--remount-ro", path)


# -- system calls ----------------------------------------------------------------------
# Code gets files of its folder, threads, child processes and sockets of its own machine side.
# Not on the list are, among others, all that would keep memory where no limit counts it
# (memfd_create, System V IPC, message queues, shared anonymous memory), other namespaces,
# sockets of networks, tracing, io_uring, keys and BPF. A call that is not listed fails with
# ENOSYS, so that libraries use an older one.

LIBRARY: Final = "libseccomp.so.2"
INSTALL_LIBRARY: Final = (
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
_CLONE_NAMESPACES = 0x7E020080  # the flags CLONE_NEW*
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
    ("clone", _ALLOW, (0, _MASKED_EQUAL, _CLONE_NAMESPACES, 0)),
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
        raise FilterUnavailable(INSTALL_LIBRARY) from None
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


# -- limits ----------------------------------------------------------------------------
# The kernel limits each process. The memory of all processes, their number and that of their
# files is measured while they run, because only control groups, which a service without root
# has none of, would limit it.

MOST_MEMORY: Final = 768 * 2**20  # bytes of all processes; Playwright takes 150 MiB
MOST_PROCESSES: Final = 16
MOST_FILES: Final = 10_000
MOST_THREADS: Final = 128  # of all processes; Playwright has 15
NICE: Final = 10
_THREADS = re.compile(rb"^Threads:\s+(\d+)$", re.MULTILINE)
_NAMESPACED_SINCE = (5, 14)  # Linux; before, threads of the whole user count
_MEMORY = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap|VmPTE):\s+(\d+) kB$", re.MULTILINE)


def limit_process(pid: int, seconds: int) -> None:
    """Limit a process that has not begun, and all that it starts.

    It has one processor, at low priority, for ``seconds``. Raises :exc:`OSError`.
    """
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: 4 * 2**30,  # V8 reserves much more than it uses
        resource.RLIMIT_DATA: 2**30,
        resource.RLIMIT_FSIZE: MOST_FILE_BYTES,
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 2**16,
        resource.RLIMIT_SIGPENDING: 256,
    }
    kernel = re.findall(r"\d+", os.uname().release)[:2]
    if tuple(map(int, kernel)) >= _NAMESPACED_SINCE:
        limits[resource.RLIMIT_NPROC] = MOST_THREADS
    for name, value in limits.items():
        _, hard = resource.prlimit(pid, name)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)  # noqa: PLW2901
        resource.prlimit(pid, name, (value, value))
    os.setpriority(os.PRIO_PROCESS, pid, NICE)
    cpus = [*os.sched_getaffinity(0)]
    os.sched_setaffinity(pid, {random.choice(cpus)})  # noqa: S311  # no secret
    with contextlib.suppress(OSError):  # then the kernel chooses itself whom it ends
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def release_process(pid: int) -> None:
    """Let the first process of a program run on any processor, so that it ends at once.

    It ends all others, which may be many and keep their own processor busy.
    """
    with contextlib.suppress(OSError):  # it has ended
        os.sched_setaffinity(pid, os.sched_getaffinity(0))


def excess(pid: int) -> str | None:
    """Return which limit the processes below ``pid`` exceed, as a sentence; else None."""
    memory = threads = count = 0
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        count += 1
        if count > MOST_PROCESSES:
            return f"The code had more than {MOST_PROCESSES} processes."
        try:
            status = Path(f"/proc/{each}/status").read_bytes()
        except OSError:  # it has just ended
            continue
        memory += 1024 * sum(map(int, _MEMORY.findall(status)))
        threads += sum(map(int, _THREADS.findall(status)))
        if threads > MOST_THREADS:  # before the children of each are read
            return f"The code had more than {MOST_THREADS} threads."
        waiting += _children(each)
    if memory > MOST_MEMORY:
        return f"The code used more than {MOST_MEMORY // 2**20} MiB of memory."
    with contextlib.suppress(OSError):
        root = Path(f"/proc/{pid}/root")
        if root.samefile("/"):  # bubblewrap has not made its own yet
            return None
        found = os.statvfs(f"{root}{FILES}")
        if found.f_files - found.f_ffree > MOST_FILES:
            return f"The code made more than {MOST_FILES} files."
    return None


def _children(pid: int) -> Iterator[int]:
    """Yield the children of all threads of a process."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, path.read_text().split())
