"""What a host of the repository reads: workflows, forms, updates and hooks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.documents import ROOT

GITHUB = ROOT / ".github"
TESTS = GITHUB / "workflows" / "tests.yml"
SCHEMAS = {
    "vendor.github-workflows": sorted(GITHUB.glob("workflows/*.yml")),
    "vendor.github-issue-forms": sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml")),
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_follows_its_schema(schema):
    assert SCHEMAS[schema]
    command = (Path(sys.executable).parent / "check-jsonschema", "--builtin-schema")
    done = subprocess.run(
        (*command, schema, *SCHEMAS[schema]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_ci_covers_all_platforms_and_pythons_and_missing_extras():
    jobs = yaml.safe_load(TESTS.read_text())["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert matrix["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm", "macos-15"]
    assert matrix["python"] == ["3.11", "3.14"]
    assert jobs["uncompiled"]["env"] == {"CC": "false"}
    assert "--resolution lowest-direct" in str(jobs["lowest"])
    assert all(job["timeout-minutes"] <= 180 for job in jobs.values())
    versions = {s["uses"] for job in jobs.values() for s in job["steps"] if "uses" in s}
    assert all(re.search(r"@v\d+\.\d+\.\d+$", version) for version in versions)
    for job in jobs.values():
        for step in job["steps"]:
            script = step.get("run", "")
            assert "${{" not in script
            subprocess.run(("bash", "-n"), input=script.encode(), check=True)


def test_updates_name_folders_that_exist():
    for update in yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]:
        for folder in update.get("directories", [update.get("directory")]):
            assert (ROOT / folder.lstrip("/")).is_dir()


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("metadata: Skip empty tags\n\nWhy.\n", ""),
        ("pdf, html: Read titles\n# a comment\n", "second line"),
        ("Merge branch 'x'\n", ""),
        ("Skip empty tags\n", "area: Imperative"),
        ("metadata: skip empty tags\n", "area: Imperative"),
        ("metadata: Skip empty tags.\n", "area: Imperative"),
        (f"metadata: Skip {'x' * 60}\n", "75 characters"),
    ],
)
def test_the_subject_of_a_commit_is_checked_by_a_hook(tmp_path, message, wrong):
    [hook] = [
        hook
        for hook in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())[
            "repos"
        ][0]["hooks"]
        if hook.get("stages") == ["commit-msg"]
    ]
    (tmp_path / "message").write_text(message)
    done = subprocess.run(
        (*hook["entry"].split(), tmp_path / "message"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == bool(wrong)
    assert wrong in done.stderr


def test_a_range_of_commits_is_checked_too(tmp_path):
    """As a pull request does; a merge has the words of Git."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit")
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    for subject in ("docs: Begin", "docs: Add a page", "wrong subject"):
        command = (*git, "--allow-empty", "--no-verify", "-qm", subject)
        subprocess.run(command, cwd=tmp_path, check=True)
    check = (sys.executable, ROOT / "tools" / "commit_message.py")
    good = subprocess.run((*check, "HEAD~2..HEAD~1"), cwd=tmp_path, check=False)
    assert good.returncode == 0
    bad = subprocess.run(
        (*check, "HEAD~2..HEAD"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert bad.returncode == 1
    assert bad.stderr.startswith("wrong subject: the subject must be")
