"""Write ``docs/reference/configuration.md`` from the comments of ``scraper_service/settings.py``.

``python -m tools.configuration`` writes the page. A group of settings begins with a line
``# -- Title ---``; the comment lines above a setting are its description. Settings
without a comment are left out, because operators have no reason to change them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from attrs import field, frozen

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "scraper_service" / "settings.py"
PAGE = ROOT / "docs" / "reference" / "configuration.md"
END = "Not settings"  # the group after the last group of the page

HEAD = """# Configuration

Every setting has a default: the service starts without any. Set one in one of three ways:

- in a file, as a line `SCRAPER_<NAME>=VALUE`, with `--env-file FILE`; `make serve` reads
  `.env`;
- in the environment, as `SCRAPER_<NAME>`; this wins over a file;
- on the command line, as `scraper-service -s NAME=VALUE ...`; this wins.

```sh
SCRAPER_LOG_LEVEL=WARNING scraper-service -s RETENTION_DAYS=7 crawl https://example.org --limit 2 -o pages.jsonl
```

```sh
# needs nothing; all commands have the option before their name, serve and worker behind it, too
printf '%s\\n' '# of this machine' SCRAPER_PORT=3010 "SCRAPER_DATA_DIR='/srv/scraped pages'" > .env
scraper-service --env-file .env doctor
scraper-service serve --env-file .env
```

Files have comments after `#` and quoted values, as those of Docker and python-dotenv; `${NAME}`
is not replaced. A line that sets no variable stops the start with its number.

Lists are comma-separated, switches are `true` or `false`. A value that cannot be used
stops the start with a sentence that names the setting. The log warns of a variable
`SCRAPER_...` that is no setting. Spiders run by `scrapy crawl` read the same settings.

`SCRAPER_SERVER` and `SCRAPER_KEY` are not settings of the service: they name the service
that the command line uses, and its key.

This page is written by `make docs` from `scraper_service/settings.py`.
"""

_GROUP = re.compile(r"# -- (.+?) -+$")
# Code as it stands there, and names of settings outside of it.
_NAMED = re.compile(r"(`[^`]*`)|\b([A-Z]+(?:_[A-Z]+)+)\b")
_UNITS = {"_DAYS": "days", "_S": "s", "_MB": "MiB", "_TOKENS": "tokens"}
_DEFAULT_UNITS = {
    **dict.fromkeys(
        ("DOWNLOAD_TIMEOUT", "METAREFRESH_MAXDELAY", "WEBHOOK_RETRY_S"), "s"
    ),
    **dict.fromkeys(("DOWNLOAD_MAXSIZE", "SCRAPER_SLOT_MAX_ACTIVE_SIZE"), "bytes"),
}


@frozen
class Setting:
    """A setting: its name, its default as a Python expression and its description."""

    name: str
    default: ast.expr
    text: str

    def row(self) -> str:
        """Return the row of the setting in the table of its group."""
        unit = _DEFAULT_UNITS.get(self.name) or next(
            (u for ending, u in _UNITS.items() if self.name.endswith(ending)), ""
        )
        text = _NAMED.sub(lambda found: found[1] or f"`{found[2]}`", self.text)
        return f"| `SCRAPER_{self.name}` | {_shown(self.default)} | {unit} | {text} |"


@frozen
class Group:
    """The settings of one subject."""

    title: str
    settings: list[Setting] = field(factory=list)

    def section(self) -> str:
        """Return the section of the page about the group."""
        head = "| Variable | Default | Unit | Meaning |\n|---|---|---|---|\n"
        rows = "\n".join(each.row() for each in self.settings)
        return f"\n## {self.title}\n\n{head}{rows}\n"


def _shown(default: ast.expr) -> str:
    try:
        value = eval(compile(ast.Expression(default), "", "eval"), {})  # noqa: S307  # our own source
    except NameError:
        return "Scrapy's"
    if value in ("", []):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`{','.join(map(str, value))}`"
    return f"{value}" if isinstance(value, int) else f"`{value}`"


def groups() -> list[Group]:
    """Return the groups of documented settings in their order."""
    source = SOURCE.read_text()
    lines = source.splitlines()
    assigned = {
        node.lineno: node
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    }
    found: list[Group] = []
    comment: list[str] = []
    for number, line in enumerate(lines, 1):
        if match := _GROUP.match(line):
            if match[1].startswith(END):
                break
            found.append(Group(match[1]))
            comment = []
        elif line.startswith("# "):
            comment.append(line.removeprefix("# "))
        else:
            node = assigned.get(number)
            if node is not None and found and comment and node.value is not None:
                name = ast.unparse(
                    node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                )
                found[-1].settings.append(Setting(name, node.value, " ".join(comment)))
            comment = []
    return [group for group in found if group.settings]


def page() -> str:
    """Return the text of the page."""
    ours = [group for group in groups() if not group.title.startswith("Scrapy")]
    of_scrapy = [group for group in groups() if group.title.startswith("Scrapy")]
    return HEAD + "".join(group.section() for group in [*ours, *of_scrapy])


if __name__ == "__main__":
    PAGE.write_text(page())
