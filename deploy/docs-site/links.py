"""Pages of the documentation link to files beside `docs/`: the site has copies of these."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
COPIES = "repository"  # the folder of the site that has the copies
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add each file that a page or a copy links to, and that is not among the pages."""
    pages = list(files.documentation_pages())
    for page in pages:
        for link in _LINK.findall(page.content_string):
            path = _outside(_path(page.src_uri), link)
            name = f"{COPIES}/{path}"
            if path is not None and files.get_file_from_path(name) is None:
                content = (ROOT / path).read_bytes()
                copy = File.generated(config, name, content=content)
                files.append(copy)
                if copy.is_documentation_page():
                    pages.append(copy)
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Let links between pages and copies lead to where the site has the files."""
    here = page.file.src_uri

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(
            posixpath.join(posixpath.dirname(_path(here)), found[0])
        )
        if path.startswith("docs/"):
            target = path.removeprefix("docs/")
        elif _outside(_path(here), found[0]):
            target = f"{COPIES}/{path}"
        else:
            return found[0]
        return posixpath.relpath(target, posixpath.dirname(here) or ".")

    return _LINK.sub(link, markdown)


def _path(page: str) -> str:
    """Return the path in the repository of a page of the site."""
    own = page.removeprefix(f"{COPIES}/")
    return own if own != page else f"docs/{page}"


def _outside(page: str, link: str) -> str | None:
    """Return the path of the file beside the pages that a page links to, or None."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    is_page = path.startswith(("docs/", "../"))
    return None if is_page or not (ROOT / path).is_file() else path
