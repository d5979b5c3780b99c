"""Who runs a job on this machine, and where its pages go: a file for each such run.

``DATA_DIR/runs/<job id>.json`` is locked as long as its process lives, so another one
knows at once that it is gone, and takes up its job without waiting for its leases.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Any, Self

import attrs

from scraper_service.cli.output import Destination, destination

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class JobTaken(Exception):
    """Another process of this machine runs the job."""


class RunRecord:
    """The right to run a job; use as a context manager.

    ``owner`` is the process that had it before, of which nothing is left to be feared,
    and ``destination`` where its pages went; None if nobody had it. The constructor
    raises :exc:`JobTaken` and :exc:`OSError`.
    """

    def __init__(self, data_dir: Path, job_id: str):
        self._path = _path(data_dir, job_id)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise JobTaken(f"job {job_id} is run by another command now") from None
        facts = self._read()
        self.owner: str | None = facts.get("owner")
        asked = facts.get("destination")
        self.destination = Destination(**asked) if asked else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def resumed(self, asked: Destination | None) -> Destination:
        """Return where pages go that are ``asked`` for, or went, or standard output.

        A folder that has those of this very job may be written again.
        """
        earlier = self.destination
        place = asked or earlier or destination(None, None, overwrite=False)
        if earlier is not None and earlier.path == place.path:
            return attrs.evolve(place, overwrite=True)
        return place

    def note(self, owner: str, destination: Destination) -> None:
        """Note who runs the job now, and where its pages go."""
        facts = {"owner": owner, "destination": attrs.asdict(destination)}
        self._file.seek(0)
        self._file.truncate()
        json.dump(facts, self._file)
        self._file.flush()

    def forget(self) -> None:
        """Delete the record: the job has ended."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        self._file.seek(0)
        try:
            found = json.load(self._file)
        except ValueError:  # new, or its writer was killed
            return {}
        return found if isinstance(found, dict) else {}


def is_run_here(data_dir: Path, job_id: str) -> bool:
    """Tell whether a process of this machine runs a job, beside any service."""
    try:
        found = os.open(_path(data_dir, job_id), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(found, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(found)
    return False


def forget_run(data_dir: Path, job_id: str) -> None:
    """Delete what is left of a run that was stopped: its job has ended."""
    if not is_run_here(data_dir, job_id):
        _path(data_dir, job_id).unlink(missing_ok=True)


def _path(data_dir: Path, job_id: str) -> Path:
    return data_dir / "runs" / f"{job_id}.json"
