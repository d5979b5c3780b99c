"""Run commands in the folder of an image as in a container, without Docker. Root only.

A command sees what ``deploy/compose.yaml`` promises: a read-only root, memory as ``/tmp``,
``/dev/shm`` and ``/data``, a user without capabilities, no new privileges, and a seccomp
profile. Processes and network are those of this machine.
"""

from __future__ import annotations

from pathlib import Path

from tests.support import seccomp

# The rights end before the command starts: it cannot change any of this.
ENTER = """
set -e
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t tmpfs -o size=64m,mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o uid="$1",gid="$1",mode=0700 tmpfs data
pivot_root . mnt
cd /
umount -l /mnt
mount -o remount,bind,ro /
cd "$2"
user=$1
loader=$3
profile=$4
shift 4
exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all -- python3 -c "$loader" "$profile" "$@"
"""


def contained(
    folder: Path, user: str, workdir: str, profile: Path, *command: str
) -> list[str]:
    """Return ``command`` as one that runs in ``folder``."""
    loader = Path(seccomp.__file__).read_text(encoding="utf-8")
    given = (str(folder), user, workdir, loader, profile.read_text(encoding="utf-8"))
    shell = ("/bin/sh", "-c", ENTER)
    return ["unshare", "--mount", "--propagation", "private", *shell, *given, *command]
