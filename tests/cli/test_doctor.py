"""What `scraper-service doctor` finds out about the store of files."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.storage.files.artefacts import Artefacts
from scraper_service.storage.files.blob_stores import ObjectStore
from scraper_service.storage.secrets import key_secret
from tests.cli.command import environment
from tests.support.object_storage import SECRET, ObjectStorage


@pytest.fixture(scope="module")
def storage():
    with ObjectStorage() as server:
        yield server


@pytest.fixture
def doctor(storage, monkeypatch, tmp_path):
    """Return the line of the store that the command prints, for a prefix."""
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)

    def call(prefix):
        url = f"s3://{storage.BUCKET}/{tmp_path.name}-{prefix}"
        arguments = ("-s", f"ARTEFACT_STORE={url}", "doctor", "--port", "0")
        done = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path)])
        assert SECRET not in done.output
        [line] = (x for x in done.output.splitlines() if "artefact store" in x)
        if line.startswith("fails"):
            assert done.exit_code == 1
        return url, line

    return call


def test_doctor_names_the_owner_of_the_artefact_store_prefix(doctor, storage, tmp_path):
    url, line = doctor("ours")
    assert (
        line == f"works    artefact store: {url} takes files, and belongs to nobody yet"
    )
    assert not (tmp_path / "key.secret").exists()  # a check makes nothing
    secret = key_secret(tmp_path)
    asyncio.run(Artefacts(tmp_path, secret, store=ObjectStore(url)).put(b"x", "png"))
    before = storage.names()
    assert doctor("ours")[1].endswith("belongs to this job database")
    assert storage.names() == before


def test_doctor_names_a_store_of_another_database(doctor, tmp_path):
    url, _ = doctor("theirs")
    other = Artefacts(tmp_path / "other", b"other", store=ObjectStore(url))
    asyncio.run(other.put(b"x", "png"))
    for _ in range(2):  # without a secret of this database, and with one
        line = doctor("theirs")[1]
        assert line.startswith("fails    artefact store: The object storage")
        assert "belongs to another job database" in line
        key_secret(tmp_path)


def test_doctor_names_a_store_that_does_not_respond(doctor, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.3:9")  # nobody listens
    line = doctor("down")[1]
    assert line.startswith("fails    artefact store: The object storage s3://")
    assert "did not read a file" in line


def test_doctor_fails_on_a_port_that_another_program_uses(service, tmp_path):
    def line(port):
        arguments = ("doctor", "--port", str(port), "--data-dir", str(tmp_path))
        done = CliRunner().invoke(main, arguments)
        [found] = (x for x in done.output.splitlines() if " port: " in x)
        return found

    port = service.url.rpartition(":")[2]
    assert line(port).startswith("works ")
    assert "a service listens on" in line(port)
    with socket.create_server(("127.0.0.1", 0)) as other:
        found = line(other.getsockname()[1])
    assert found.startswith("fails ")
    assert "end what uses it, or use --port" in found


# Without these capabilities root may read only what its permissions allow.
_AS_A_USER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.mark.parametrize("place", ["data", "home/data"])
def test_a_home_that_cannot_be_read_has_no_browser(tmp_path, place):
    home = tmp_path / "home"
    home.mkdir(mode=0)
    as_user = _AS_A_USER if os.geteuid() == 0 else ()
    doctor = (sys.executable, "-m", "scraper_service", "doctor", "--port", "0")
    done = subprocess.run(
        (*as_user, *doctor, "--data-dir", tmp_path / place),
        env=environment(HOME=str(home), PATH="/usr/bin"),
        capture_output=True,
        text=True,
        check=False,
    )
    home.chmod(0o700)  # for those who remove it
    assert "Traceback" not in done.stderr
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    names = [name.split(None, 1)[1] for name in lines]
    assert {"python", "data directory", "browser", "exports"} <= set(names)
    [folder] = (text for name, text in lines.items() if "data directory" in name)
    assert (f"{home} cannot be written" in folder) == place.startswith("home")
