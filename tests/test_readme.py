"""The README's commands, run as they stand, with a local site in place of the public."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.content.pdfmaker import pdf

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TERMINAL = (ROOT / "docs" / "terminal.md").read_text()
PUBLIC = "https://example.org"
DOCUMENTS = [README, (ROOT / "deploy" / "README.md").read_text()]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def asked(service, part, *, page=PUBLIC, job_id=""):
    """Run the curl command that has ``part`` in it; return what it prints.

    ``page`` is the address in place of the public one.
    """
    command = next(block for block in blocks("sh") if part in block)
    command = command.replace("http://127.0.0.1:3002", service.url)
    command = command.replace(PUBLIC, page).replace("\\\n", "")
    command = command.replace("$ID", job_id).replace("$KEY", service.key)
    return subprocess.run(
        ["curl", "-sfN", *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def printed(service, site, number):
    """Run a Python example; return what it prints."""
    code = blocks("python")[number].replace("http://127.0.0.1:3002", service.url)
    code = code.replace(PUBLIC, site.url("/example"))
    return subprocess.run(
        (sys.executable, "-W", "ignore", "-c", f"key = {service.key!r}\n{code}"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_first_call_gives_the_output_that_is_shown(service, site):
    # An address of its own: what another test has fetched would come from the cache.
    answer = json.loads(asked(service, "curl", page=site.url("/example?first")))
    shown = json.loads(blocks("json")[0])
    metadata, expected = answer["data"]["metadata"], shown["data"]["metadata"]
    assert set(metadata) == set(expected)
    for changing in ("scrapeId", "sourceURL", "url"):
        metadata[changing] = expected[changing]
    assert answer == shown


def test_a_file_is_sent_as_shown(service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [[(72, 700, 12, "the tides of the year")]]
    (tmp_path / "report.pdf").write_bytes(pdf(words))
    data = json.loads(asked(service, "/v2/parse"))["data"]
    assert "the tides of the year" in data["markdown"]
    assert data["metadata"]["sourceURL"] == "report.pdf"


def test_the_list_of_addresses_is_asked_for_as_shown(service, site):
    body = {"url": site.url("/example"), "limit": 1}
    job_id = service.post("/v2/crawl", body).json["id"]
    assert json.loads(asked(service, "/urls?", job_id=job_id))["success"] is True


def test_the_events_are_told_as_shown(service, site):
    body = {"url": site.url("/example?events"), "limit": 1, "ignoreRobotsTxt": True}
    job_id = service.post("/v2/crawl", body).json["id"]
    told = asked(service, "/events?", job_id=job_id)
    events = re.findall(r"^event: (.+)$", told, re.MULTILINE)
    assert events == ["crawl.started", "crawl.page", "crawl.completed"]


def test_the_python_example_prints_the_page(service, site):
    assert printed(service, site, 0).startswith("# Example Domain")


def test_the_crawl_example_prints_its_pages(service, site):
    expected = f"completed 1 ['{site.url('/example')}']"
    assert printed(service, site, 1).strip() == expected


def test_the_map_example_lists_addresses(service, site):
    page = site.url("/example")
    links = json.loads(asked(service, "/v2/map", page=page))["links"]
    assert links == [{"url": page, "title": "Example Domain"}]


def test_the_search_example_is_answered(service):
    assert list(json.loads(asked(service, "/v2/search"))["data"]) == ["web"]


def test_data_and_a_summary_are_made_as_shown(service, site, tmp_path):
    page = json.loads(asked(service, '"summary"', page=site.url("/example")))["data"]
    assert page["json"] == {"title": "Example Domain"}
    assert page["summary"].startswith("This domain is for use")
    [shown] = run_block("-f json", site, tmp_path)
    assert "Example Domain" in json.loads(shown).values()


def test_the_local_commands_work(site, tmp_path):
    run_block("scrapy crawl", site, tmp_path)
    [page] = json.loads((tmp_path / "page.json").read_text())
    assert page["links"] == ["https://iana.org/domains/example"]
    [line] = (tmp_path / "pages.jsonl").read_text().splitlines()
    assert json.loads(line)["markdown"].startswith("# Example Domain")
    [line] = (tmp_path / "links.jsonl").read_text().splitlines()
    assert json.loads(line)["title"] == "Example Domain"
    assert (tmp_path / "results.jsonl").exists()


@pytest.mark.timeout(300)  # each command starts an interpreter
def test_the_commands_of_the_shell_work(site, tmp_path):
    scrape, _, parsed, urls, *_, listed = run_block(
        "scraper-service map", site, tmp_path
    )
    assert scrape.startswith("# Example Domain")
    assert "# Example Domain" in parsed
    assert len(list((tmp_path / "page").iterdir())) == 2
    assert urls == site.url("/example") + "\n"
    [line] = (tmp_path / "site" / "index.jsonl").read_text().splitlines()
    text = (tmp_path / "site" / json.loads(line)["file"]).read_text()
    assert text.startswith('---\ntitle: "Example Domain"\n')
    assert "\n---\n\n# Example Domain" in text
    [line] = (tmp_path / "pages.jsonl").read_text().splitlines()
    assert json.loads(line)["metadata"]["url"] == site.url("/example")
    [_, row] = (tmp_path / "pages.csv").read_text().splitlines()
    assert row.startswith(site.url("/example"))
    kinds = [json.loads(line)["kind"] for line in listed.splitlines()]
    assert kinds == ["batch", "crawl", "crawl"]


@pytest.mark.timeout(300)  # each command starts an interpreter
@pytest.mark.parametrize("number", [0, 1], ids=["120 columns", "40 columns"])
def test_the_session_at_a_terminal_prints_what_is_shown(site, tmp_path, number):
    session = re.findall(r"^```console\n(.*?)^```", TERMINAL, re.DOTALL | re.MULTILINE)
    shown = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", session[number], re.MULTILINE)
    lines = [re.sub("^scraper", ".venv/bin/scraper", command) for command, _ in shown]
    lines = [line.replace("site/*example*", "site/*-example") for line in lines]
    for output, (command, text) in zip(run(lines, site, tmp_path), shown, strict=True):
        if "crawl" in command:
            assert json.loads(output)["metadata"]["title"] in text
        elif "jobs list" in command:
            assert json.loads(output)["state"] in text.replace("\n", "")
        else:
            expected = "" if "export" in command else text
            assert output == expected.replace(PUBLIC, site.url("/example"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_the_completion(shell):
    line = next(line for line in TERMINAL.splitlines() if f"{shell}_source" in line)
    variable, value = re.search(r"(\w+)=(\w+)", line).groups()
    done = subprocess.run(
        (f"{Path(sys.executable).parent}/scraper-service",),
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{variable}={shell}_complete" in done.stdout


def run_block(part, site, folder):
    """Run the lines of the block that has ``part``; return what each printed."""
    block = next(block for block in blocks("sh") if part in block)
    return run(block.strip().splitlines(), site, folder)


def run(lines, site, folder):
    """Run commands with a local page in place of the public one; return what they print."""
    scripts = Path(sys.executable).parent
    outputs = []
    for line in lines:
        command = line.replace(PUBLIC, site.url("/example"))
        done = subprocess.run(
            ("sh", "-c", command.replace(".venv/bin/", f"{scripts}/")),
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
                "SCRAPER_SEARCH_PROVIDERS": "own",
                "SCRAPY_SETTINGS_MODULE": "scraper_service.settings",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    return outputs


def test_every_setting_of_the_tables_is_one_with_the_default_shown():
    from scraper_service import settings

    rows = [
        re.findall(r"`(?:SCRAPER_)?([A-Z_]+)`", row.split("|")[1])
        for document in DOCUMENTS
        for row in document.splitlines()
        if row.startswith("| `")
    ]
    names = [name for row in rows for name in row]
    assert len(names) > 15
    assert [name for name in names if not hasattr(settings, name)] == []


def test_make_names_its_targets():
    done = subprocess.run(
        ("make", "-C", str(ROOT), "help"), capture_output=True, text=True, check=True
    )
    named = set(re.findall(r"make (\w+)", done.stdout))
    in_readme = set(re.findall(r"make (\w+)", " ".join(blocks("sh"))))
    assert in_readme <= named


@pytest.mark.timeout(1800)  # it installs everything
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_make_serve_in_a_fresh_clone_and_a_fresh_environment(tmp_path, site):
    clone = tmp_path / "clone"
    files = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    environment = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    environment["SCRAPER_EGRESS_ALLOW"] = "127.0.0.2/32"
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            ("make", "serve", "ARGS=--port 0"),
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as make,
    ):
        try:
            curl = next(
                (line for line in make.stdout if line.strip().startswith("curl")), None
            )
            assert curl, (tmp_path / "log").read_text()
            curl = curl.replace(PUBLIC, site.url("/example"))
            done = subprocess.run(shlex.split(curl), capture_output=True, check=True)
        finally:
            os.killpg(make.pid, signal.SIGTERM)
    assert json.loads(done.stdout)["data"]["markdown"].startswith("# Example Domain")
    assert (clone / "data" / "jobs.sqlite").exists()
