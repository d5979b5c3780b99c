"""The release workflow: its form, its rights, and the files and commands that it names."""

from __future__ import annotations

import re
import subprocess

import yaml

from tests.support.image import steps
from tools.bench.processes import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
# Rights of each job; all others have none.
RIGHTS = {
    "source": {"contents": "read"},
    "wheels": {"contents": "read"},
    "image": {"contents": "read", "packages": "write"},
    "publish-image": {"packages": "write"},
    "publish-packages": {"id-token": "write"},
}
RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel"}


def release():
    return yaml.safe_load(WORKFLOW.read_text())


def steps_of_jobs():
    return [step for job in release()["jobs"].values() for step in job["steps"]]


def test_each_release_job_has_minimal_rights_and_a_timeout():
    found = release()
    assert found["permissions"] == {}
    jobs = found["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == RIGHTS
    assert all(job["timeout-minutes"] <= 120 for job in jobs.values())


def test_publishing_waits_for_all_builds():
    jobs = release()["jobs"]
    for name in ("publish-image", "publish-packages"):
        assert jobs[name]["needs"] == ["source", "wheels", "image"]


def test_actions_and_tools_have_a_version():
    used = [step["uses"] for step in steps_of_jobs() if "uses" in step]
    assert used
    assert [u for u in used if not re.search(r"@v\d+\.\d+\.\d+$", u)] == []
    tools = re.findall(r"pipx run (\S+)", WORKFLOW.read_text())
    assert len(tools) == 2
    assert [tool for tool in tools if not re.search(r"==\d+\.\d+\.\d+$", tool)] == []


def test_wheels_are_built_for_linux_and_macos_on_both_architectures():
    assert {*release()["jobs"]["wheels"]["strategy"]["matrix"]["runner"]} == RUNNERS
    image = release()["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert {each["architecture"] for each in image} == {"amd64", "arm64"}


def test_scripts_are_shell_and_take_no_text_from_outside():
    scripts = [step["run"] for step in steps_of_jobs() if "run" in step]
    assert len(scripts) >= 6
    for script in scripts:
        assert "${{" not in script  # names of tags would be run
        subprocess.run(("bash", "-n"), input=script.encode(), check=True)


def test_release_scripts_name_existing_files():
    text = WORKFLOW.read_text()
    for name in re.findall(r"--file (\S+)", text):
        assert (ROOT / name).is_file()
    assert "chromium" in (ROOT / "deploy" / "Dockerfile").read_text()
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    assert re.search(r"exec .* api ", text.replace("\n", " "))
    assert services["api"]["image"] == "scraper-service"


def test_the_tag_is_compared_with_the_version(tmp_path):
    [script] = [s["run"] for s in steps_of_jobs() if "version" in s.get("name", "")]
    [version] = re.findall(
        r"^version = (\S+)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE
    )
    for tag, fits in ((f"v{version}", True), ("v0.0.0", False), ("v", False)):
        done = subprocess.run(
            ("bash", "-e", "-c", script),
            cwd=ROOT,
            env={"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode == 0) == fits, tag


def test_the_image_copies_files_that_are_not_ignored():
    kept = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    found = steps((ROOT / "deploy" / "Dockerfile").read_text())
    copied = [
        source
        for name, text in found
        if name == "COPY" and not text.startswith("--from")
        for source in text.split()[:-1]
    ]
    assert sorted(copied) == sorted(kept)
    assert all((ROOT / name).exists() for name in kept)
