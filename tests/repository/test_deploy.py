"""The files of ``deploy/``, by their own linters; ``make test-deploy`` tries them."""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import sqlalchemy as sa
import yaml

from scraper_service import settings
from scraper_service.cli.main import worker_command
from scraper_service.storage.schema import metadata
from tests.support.compose import profile_of, services
from tests.support.image import steps
from tests.support.pgbouncer import PROGRAM as PGBOUNCER
from tests.support.waiting import WAIT_S, wait_until
from tools.bench.processes import ROOT

DEPLOY = ROOT / "deploy"
COMMANDS = Path(sys.executable).parent
NO_PROMTOOL = "there is no promtool; Debian has it in the package prometheus"
UNITS = sorted(DEPLOY.glob("*.service"))
COMPOSE = sorted(DEPLOY.glob("compose*.yaml"))
KUBERNETES = DEPLOY / "kubernetes"
KUBERNETES_VERSIONS = ("1.28", "1.35")
# Their schemas are not part of Kubernetes.
ELSEWHERE = {
    *("Kustomization", "Component", "ServiceMonitor", "PodMonitor"),
    *("ScaledObject", "TriggerAuthentication", "Cluster", "Pooler"),
}
OVERLAYS = ("base", "postgresql", "workers")


def lint(*command):
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_image_is_built_by_the_rules():
    assert lint(COMMANDS / "hadolint", DEPLOY / "Dockerfile") == ""


def test_the_image_runs_as_an_unprivileged_user():
    found = steps((DEPLOY / "Dockerfile").read_text())
    users = [text for name, text in found if name == "USER"]
    assert users == ["10001"]
    commands = [name for name, _ in found]
    assert "HEALTHCHECK" in commands
    assert commands.index("USER") < commands.index("CMD")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_follow_their_schema(path):
    schema = ("--builtin-schema", "vendor.compose-spec")
    lint(COMMANDS / "check-jsonschema", *schema, path)


PROFILE = DEPLOY / "seccomp.json"
# What Docker denies to containers without capabilities, beside what the sandbox needs.
DENIED = {"bpf", "init_module", "io_uring_setup", "kexec_load", "keyctl", "mount"}
DENIED |= {"open_by_handle_at", "perf_event_open", "pivot_root", "setns", "umount2"}


def test_containers_with_the_browser_have_the_profile_of_its_sandbox():
    found = services(*(path.name for path in COMPOSE))
    ours = {k: v for k, v in found.items() if v["image"] == "scraper-service"}
    assert ours.keys() == {"api", "node1", "node2", "worker1", "worker2"}
    assert {profile_of(service) for service in ours.values()} == {PROFILE}


def test_the_seccomp_profile_denies_unneeded_system_calls():
    profile = json.loads(PROFILE.read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = [
        name
        for rule in profile["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW"
        for name in rule["names"]
    ]
    assert {"clone", "unshare", "chroot", "execve", "openat2", "statx"} <= {*allowed}
    assert not DENIED & {*allowed}
    kinds = {each["architecture"] for each in profile["archMap"]}
    assert kinds == {"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"}


@pytest.mark.parametrize(
    ("command", "works"),
    [
        ("unshare --user true", True),
        ("unshare --user --map-root-user chroot / true", True),
        # It makes the namespace, but may not mount anything in it.
        ("unshare --user --map-root-user --mount true", False),
    ],
)
def test_the_kernel_takes_the_profile(command, works):
    loader = ROOT / "tests" / "support" / "seccomp.py"
    limited = ("setpriv", "--no-new-privs", sys.executable, loader, PROFILE.read_text())
    if ctypes.util.find_library("seccomp") is None or not shutil.which("setpriv"):
        pytest.skip("there is no libseccomp or no setpriv")
    if subprocess.run(("unshare", "--user", "true"), check=False).returncode:
        pytest.skip("there are no user namespaces")
    done = subprocess.run(
        (*limited, *command.split()), capture_output=True, check=False
    )
    assert (done.returncode == 0) == works, done.stderr


def manifests(text):
    """Return the objects in a file or a rendered folder."""
    return [each for each in yaml.safe_load_all(text) if each]


def validate(objects):
    for each in objects:
        if each["kind"] not in ELSEWHERE:
            for version in KUBERNETES_VERSIONS:
                kubernetes_validate.validate(each, version, strict=True)


def test_manifests_follow_the_schemas_of_kubernetes():
    paths = [
        *KUBERNETES.glob("*.yaml"),
        *KUBERNETES.glob("base/*.yaml"),
        *KUBERNETES.glob("workers/*.yaml"),
    ]
    paths.remove(KUBERNETES / "workers/api.yaml")  # a patch
    objects = [each for path in paths for each in manifests(path.read_text())]
    validate(objects)
    assert {each["kind"] for each in objects} >= {"Deployment", "Service", "Ingress"}


def test_every_file_of_an_overlay_is_used():
    for folder in map(KUBERNETES.joinpath, (*OVERLAYS, "object-storage")):
        [found] = manifests((folder / "kustomization.yaml").read_text())
        patches = [each["path"] for each in found.get("patches", ())]
        names = {*found.get("resources", ()), *patches, "kustomization.yaml"}
        names -= {f"../{name}" for name in OVERLAYS}
        assert {path.name for path in folder.iterdir()} == names


def rendered(folder):
    """Return the objects of an overlay by kind and name."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    done = subprocess.run(
        ("kubectl", "kustomize", folder),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    objects = manifests(done.stdout)
    validate(objects)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", OVERLAYS)
def test_overlays_are_rendered_by_kubectl(name):
    objects = rendered(KUBERNETES / name)
    deployment = objects["Deployment", "scraper-service"]["spec"]
    has_volume = ("PersistentVolumeClaim", "scraper-service") in objects
    assert has_volume == (name == "base")
    assert deployment["replicas"] == (1 if name == "base" else 2)
    data = deployment["template"]["spec"]["volumes"][0]
    assert set(data) == {
        "name",
        "persistentVolumeClaim" if name == "base" else "emptyDir",
    }


def variables(deployment):
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_services_with_separate_workers_run_no_jobs(tmp_path):
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    folder = tmp_path / "kubernetes" / "workers"
    text = (folder / "kustomization.yaml").read_text()
    stored = text.replace("# components:\n#   -", "components:\n  -")
    assert stored != text
    (folder / "kustomization.yaml").write_text(stored)
    objects = rendered(folder)
    service = variables(objects["Deployment", "scraper-service"])
    worker = variables(objects["Deployment", "scraper-worker"])
    zeros = {name for name, value in service.items() if value == "0"}
    assert zeros == {
        "SCRAPER_MAX_RUNNING_JOBS",
        "SCRAPER_MAX_RUNNING_OPERATIONS",
        "SCRAPER_MONITOR_CONCURRENCY",
    }
    assert service["SCRAPER_ARTEFACTS"] == worker["SCRAPER_ARTEFACTS"] == "files"
    budgets = {name for kind, name in objects if kind == "PodDisruptionBudget"}
    assert budgets == {"scraper-service", "scraper-worker"}
    # The service must not send calls to workers.
    selected = objects["Service", "scraper-service"]["spec"]["selector"]
    pods = objects["Deployment", "scraper-worker"]["spec"]["template"]["metadata"]
    assert selected.items().isdisjoint(pods["labels"].items())


def test_the_number_of_workers_follows_the_work_in_the_database(postgres, service):
    _, found = manifests((KUBERNETES / "autoscaling-postgresql.yaml").read_text())
    assert found["spec"]["scaleTargetRef"] == {"name": "scraper-worker"}
    [trigger] = found["spec"]["triggers"]
    address = postgres()
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.begin() as connection:
        metadata.create_all(connection)
        assert connection.scalar(sa.text(trigger["metadata"]["query"])) == 0
    [found] = manifests((KUBERNETES / "autoscaling-prometheus.yaml").read_text())
    query = found["spec"]["triggers"][0]["metadata"]["query"]
    with urllib.request.urlopen(f"{service.url}/metrics") as reply:
        text = reply.read().decode()
    names = set(re.findall(r"scraper_\w+", query))
    assert names == {"scraper_urls", "scraper_jobs"}
    assert all(f"# TYPE {name} gauge" in text for name in names)


def test_a_worker_is_started_with_existing_options():
    [worker] = manifests((KUBERNETES / "workers/worker.yaml").read_text())
    [container] = worker["spec"]["template"]["spec"]["containers"]
    unit = (DEPLOY / "scraper-worker@.service").read_text()
    [line] = re.findall(r"^ExecStart=(.+)", unit, re.MULTILINE)
    compose = services("compose.workers.yaml")["worker1"]["command"]
    for words in (container["args"], line.replace("%i", "1").split(), compose):
        arguments = words[words.index("worker") + 1 :]
        context = worker_command.make_context("worker", list(arguments))
        assert context.params["port"] is not None
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    assert {container[probe]["httpGet"]["port"] for probe in probes} == {"probes"}


@pytest.mark.skipif(PGBOUNCER is None, reason="there is no PgBouncer")
def test_pgbouncer_understands_its_file():
    text = (DEPLOY / "pgbouncer.ini").read_text()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    path = folder / "pgbouncer.ini"
    path.write_text(text.replace("6432", str(port)) + "unix_socket_dir =\n")
    folder.chmod(0o755)  # PgBouncer has another user
    user = "nobody" if os.geteuid() == 0 else None
    process = subprocess.Popen(
        (PGBOUNCER, path), user=user, stderr=subprocess.PIPE, text=True, cwd="/"
    )

    def listens():
        assert process.poll() is None, process.stderr.read()
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return False
        return True

    try:
        wait_until(listens)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        shutil.rmtree(folder)


def test_manifests_name_existing_routes_and_settings(service):
    [deployment] = manifests((KUBERNETES / "base/deployment.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    for path in {container[probe]["httpGet"]["path"] for probe in probes}:
        assert service.get(path, key=None).status == 200
    [monitor] = manifests((KUBERNETES / "service-monitor.yaml").read_text())
    key = monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["key"]
    assert key == "SCRAPER_METRICS_KEY"


@pytest.mark.parametrize(
    "arguments",
    [("config", "prometheus.yaml"), ("rules", "--lint-fatal", "alerts.yaml")],
    ids=lambda arguments: arguments[-1],
)
def test_prometheus_understands_its_files(arguments):
    if shutil.which("promtool") is None:
        pytest.skip(NO_PROMTOOL)
    kind, *options, name = arguments
    lint("promtool", "check", kind, *options, DEPLOY / name)


# Metrics over half an hour, by alert; nothing else may fire.
FIRING = {
    "ServiceDown": {'up{job="scraper-service"}': "0+0x40"},
    "CheckFails": {'scraper_check_passes{check="disk"}': "0+0x40"},
    "RequestsFail": {
        'scraper_http_requests_total{route="/v2/scrape",status="500"}': "0+10x40",
        'scraper_http_requests_total{route="/v2/scrape",status="200"}': "0+90x40",
    },
    "PagesFail": {
        'scraper_pages_total{result="failed"}': "0+60x40",
        'scraper_pages_total{result="done"}': "0+40x40",
    },
    "JobsWait": {"scraper_queue_age_seconds": "700+60x40"},
    "NobodyWorks": {
        "scraper_workers": "0+0x40",
        'scraper_urls{state="pending"}': "5+0x40",
    },
    "LeasesOverdue": {"scraper_lease_overdue_seconds": "200+60x40"},
    "EventLoopLate": {
        'scraper_event_loop_lag_seconds_bucket{le="0.25"}': "0+10x40",
        'scraper_event_loop_lag_seconds_bucket{le="0.5"}': "0+1000x40",
        'scraper_event_loop_lag_seconds_bucket{le="+Inf"}': "0+1000x40",
    },
    "CommitsSlow": {
        'scraper_database_seconds_bucket{operation="store",le="2.5"}': "0+10x40",
        'scraper_database_seconds_bucket{operation="store",le="5"}': "0+1000x40",
        'scraper_database_seconds_bucket{operation="store",le="+Inf"}': "0+1000x40",
    },
    "ConvertersDie": {"scraper_converter_restarts_total": "0+2x40"},
    "BrowserDies": {"scraper_browser_restarts_total": "0+1x40"},
    "WebhooksWait": {"scraper_webhooks_pending": "2000+10x40"},
    "DiskFull": {"scraper_data_free_bytes": "1000000000+0x40"},
    "": {
        'up{job="scraper-service"}': "1+0x40",
        'scraper_check_passes{check="disk"}': "1+0x40",
        "scraper_workers": "0+0x40",
        'scraper_urls{state="pending"}': "0+0x40",
        'scraper_http_requests_total{route="/health",status="503"}': "0+60x40",
        'scraper_http_requests_total{route="/v2/scrape",status="200"}': "0+90x40",
        'scraper_pages_total{result="failed"}': "0+1x40",
        'scraper_pages_total{result="done"}': "0+99x40",
        "scraper_converter_restarts_total": "0+1x40",
    },
}


@pytest.mark.parametrize("alert", FIRING)
def test_alerts_fire_on_their_example_series(alert, tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip(NO_PROMTOOL)
    series = [{"series": k, "values": v} for k, v in FIRING[alert].items()]
    # ALERTS has what fires; an alert with the wrong name fails the test too.
    told = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "30m",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
        if alert
        else [],
    }
    test = {
        "rule_files": [str(DEPLOY / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {"interval": "1m", "input_series": series, "promql_expr_test": [told]}
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps(test))
    lint("promtool", "test", "rules", path)


def test_every_alert_is_tried():
    names = re.findall(r"alert: (\w+)", (DEPLOY / "alerts.yaml").read_text())
    assert {*names, ""} == {*FIRING}


def test_the_board_has_no_panel_twice():
    board = json.loads((DEPLOY / "grafana.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    assert all(panel["targets"] for panel in panels if panel["type"] != "row")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_understood(path, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    text = path.read_text()
    [program] = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
    unit = tmp_path / path.name
    unit.write_text(text.replace(program, "/bin/true"))  # it is not installed here
    said = lint("systemd-analyze", "verify", "--man=no", unit)
    assert path.name not in said, said


FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: path.relative_to(DEPLOY).as_posix()
)
def test_every_variable_is_a_setting(path, monkeypatch):
    for name in os.environ:
        if name.startswith("SCRAPER_"):
            monkeypatch.delenv(name)
    for name in re.findall(r"SCRAPER_[A-Z_]+[A-Z]", path.read_text()):
        monkeypatch.setenv(name, "x")
    assert settings.unknown_settings() == ""
