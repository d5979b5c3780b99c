"""Files of exports that go to the object storage of who runs the command."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from scraper_service.errors import StoreUnavailable
from scraper_service.storage.files.blob_stores import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.cli.outputs.output import Destination


@contextmanager
def uploaded(place: Destination) -> Iterator[Destination]:
    """Yield ``place``, or a temporary file for it that is uploaded afterwards.

    Nothing is uploaded after an error. Raises :exc:`click.ClickException`.
    """
    if not place.is_stored:
        yield place
        return
    folder, _, name = str(place.path).rpartition("/")
    try:
        store = ObjectStore(folder, "-o")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, name)
        yield evolve(place, path=str(path))
        try:
            asyncio.run(store.put_file(name, path))
        except StoreUnavailable as error:
            raise click.ClickException(str(error)) from None
