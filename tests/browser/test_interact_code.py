"""Steps of a browser session by code in Python and Node (interface, 27.4)."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import platform
import shutil
import signal
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from firecrawl import Firecrawl
from scrapy.settings import Settings

from scraper_service.cli.main import main
from scraper_service.services.browser_sessions import caller_code, sandbox
from scraper_service.services.browser_sessions.caller_code import CallerCode
from scraper_service.services.browser_sessions.sandbox import command
from tests.browser.conftest import SETTINGS, chromium_processes
from tests.browser.fragile import driver_and_chromium, homes_of
from tests.conftest import KEY, Service
from tests.support.waiting import wait_until

LANGUAGES = ("node", "python")
ON = {**SETTINGS, "SCRAPER_INTERACT_CODE": "node, python"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("code")


@pytest.fixture(scope="module", autouse=True)
def _isolation(data_dir):
    """Skip where this machine does not let a program be isolated."""
    settings = Settings({"INTERACT_CODE": "node", "DATA_DIR": str(data_dir)})
    if why := asyncio.run(CallerCode(settings).why_off("node")):
        pytest.skip(why)


@pytest.fixture(scope="module")
def service(data_dir):
    running = Service(data_dir, **ON)
    yield running
    assert running.stop() == 0, running.stderr
    assert "Traceback" not in running.stderr
    assert chromium_processes(running.pid) == []
    assert programs_of(running.pid) == []


@pytest.fixture(scope="module")
def session(service, app):
    body = {"url": app.url("/form"), "ttl": 600}
    return service.post("/v2/interact", body).json["id"]


@pytest.fixture
def run(service, session):
    """Return a function that does a step by code in the session of the module."""

    def call(language, code, **options):
        body = {"code": code, "language": language, "timeout": 60, **options}
        reply = service.post(f"/v2/interact/{session}/execute", body)
        assert reply.status == 200, reply.json
        return reply.json

    return call


@pytest.fixture
def value(run):
    """Return a function that returns the result of such a step, read as JSON."""

    def call(language, code, **options):
        done = run(language, code, **options)
        assert done["success"] is True, done
        assert (done["exitCode"], done["killed"]) == (0, False)
        return json.loads(done["result"])

    return call


def programs_of(pid):
    """Return the programs that a process runs in bubblewrap."""
    found = subprocess.run(
        ("ps", "-o", "args", "--ppid", str(pid)),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return [line for line in found.stdout.splitlines() if "bwrap" in line]


USUAL = {
    "node": """
        console.log('printed'); console.error('warned');
        await page.goto(%r);
        await page.fill('#name', 'Ada');
        const other = await context.newPage();
        await other.goto(%r);
        const titles = [await page.title(), await other.title()];
        const { targetInfo } = await (await context.newCDPSession(page))
            .send('Target.getTargetInfo');
        ({ titles, pages: context.pages().length, contexts: browser.contexts().length,
           type: targetInfo.type })
    """,
    "python": """
import sys
print('printed'); print('warned', file=sys.stderr)
await page.goto(%r)
await page.fill('#name', 'Ada')
other = await context.new_page()
await other.goto(%r)
titles = [await page.title(), await other.title()]
devtools = await context.new_cdp_session(page)
target = (await devtools.send('Target.getTargetInfo'))['targetInfo']
{'titles': titles, 'pages': len(context.pages), 'contexts': len(browser.contexts),
 'type': target['type']}
""",
}
# The page of the session is meant by page, also beside others, which stay as they are.
READ = {
    "node": "[await page.inputValue('#name'), context.pages().length]",
    "python": "[await page.input_value('#name'), len(context.pages)]",
}
CLOSE = {
    "node": """
        for (const each of context.pages()) if (each !== page) await each.close();
        await browser.close()
    """,
    "python": """
for each in context.pages:
    if each != page:
        await each.close()
await browser.close()
""",
}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_code_works_in_the_page_of_its_session(run, value, app, language):
    given = USUAL[language] % (app.url("/form"), app.url("/colours"))
    done = run(language, given)
    assert done["success"] is True, done
    assert (done["stdout"], done["stderr"]) == ("printed\n", "warned\n")
    assert "truncated" not in done
    assert done["url"] == app.url("/form")
    assert json.loads(done["result"]) == {
        "titles": ["Form", "Colours"],
        "pages": 2,
        "contexts": 1,
        "type": "page",
    }
    assert value(language, READ[language]) == ["Ada", 2]
    done = run(language, CLOSE[language], formats=["markdown"])
    assert done["success"] is True, done
    assert "result" not in done
    assert "Form" in done["data"]["metadata"]["title"]
    step = run("bash", "get url")
    assert step["result"] == app.url("/form")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("language", "code", "result"),
    [
        ("node", "page.title()", "Form"),
        ("python", "page.title()", "Form"),
        ("node", "const x = [1n]; x", "[ 1n ]"),
        ("python", "'half \\ud800'", "half ?"),
    ],
)
def test_the_last_expression_is_the_result(run, language, code, result):
    done = run(language, code)
    assert done["success"] is True, done
    assert done["result"] == result


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("language", "code", "error", "place"),
    [
        (
            "node",
            "console.log(1)\nfunction f() { throw new TypeError('no') }\nf()",
            "TypeError: no",
            "code:2:22",
        ),
        (
            "python",
            "print(1)\ndef f():\n    raise TypeError('no')\nf()",
            "TypeError: no",
            'File "<code>", line 3, in f',
        ),
        ("node", "await page.click('#none', { timeout: 9 })", "Timeout 9ms", "code:1"),
        ("python", "1 +", "SyntaxError: invalid syntax", "SyntaxError"),
        ("node", "process.exit(3)", "ended with the exit code 3", "code 3"),
        (
            "node",
            "setTimeout(() => { null.x }); await page.waitForTimeout(9e3)",
            "null",
            "",
        ),
    ],
)
def test_an_error_of_the_code_names_its_line(run, language, code, error, place):
    done = run(language, code)
    assert (done["success"], done["exitCode"], done["killed"]) == (False, 1, False)
    assert error in done["error"]
    assert place in done["stderr"]
    assert "run.js" not in done["stderr"]
    assert "run.py" not in done["stderr"]
    assert done["stdout"] == ("1\n" if "(1)" in code else "")


ENDLESS = {
    "node": "while (true) console.log('x'.repeat(1000))",
    "python": """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(4):
    if not os.fork():
        os.setsid()
        while True:
            os.write(1, bytes(100_000))
while True:
    pass
""",
}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_endless_code_is_killed_with_its_child_processes(service, run, language):
    done = run(language, ENDLESS[language], timeout=2)
    assert (done["success"], done["exitCode"], done["killed"]) == (False, 124, True)
    assert "within 2 s" in done["error"]
    assert programs_of(service.pid) == []
    assert run("bash", "get title")["result"] == "Form"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("node", "process.stderr.write('é'.repeat(2e6)); 1"),
        (
            "python",
            "import os\nfor _ in range(40): os.write(2, b'\\xc3\\xa9' * 50_000)\n1",
        ),
    ],
)
def test_output_is_cut_and_the_code_goes_on(run, language, code):
    done = run(language, code)
    assert done["success"], done["error"]
    assert (done["result"], done["truncated"]) == ("1", True)
    assert done["stdout"] == ""
    assert len(done["stderr"].encode()) <= 2**20
    assert done["stderr"] == "é" * 2**19


def test_files_of_this_machine_do_not_count(monkeypatch):
    """Until bubblewrap has made the sandbox, its process sees those of the machine."""
    monkeypatch.setattr(sandbox, "MOST_FILES", -1)
    with subprocess.Popen(["sleep", "60"]) as process:
        found = sandbox.excess(process.pid)
        process.kill()
    assert found is None


@pytest.mark.full
def test_a_client_that_leaves_does_not_keep_a_program(service, app):
    opened = service.post("/v2/interact", {"url": app.url("/form")}).json["id"]
    page = app.url("/form?left")
    code = {"code": f"await page.goto('{page}'); while (true);", "timeout": 300}
    address = urllib.parse.urlsplit(service.url).netloc
    with contextlib.closing(http.client.HTTPConnection(address)) as client:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        path = f"/v2/interact/{opened}/execute"
        client.request("POST", path, json.dumps(code), headers)
        wait_until(lambda: any("left" in path for path in app.paths()))
    # The end of the session is that of its steps, also of one that would take minutes.
    service.request("DELETE", f"/v2/interact/{opened}")
    wait_until(lambda: not programs_of(service.pid))


class CutShort:
    """A step of a session of its own that would take minutes, in a thread."""

    def __init__(self, service, app):
        self._service = service
        homes = homes_of(service)
        self.id = service.post("/v2/interact", {"url": app.url("/form")}).json["id"]
        [self.home] = homes_of(service) - homes
        self._executor = ThreadPoolExecutor(1)
        page = app.url("/form?begun")
        code = (
            f"print('begun', flush=True)\nawait page.goto('{page}')\nwhile True: pass"
        )
        app.paths()
        self._step = self._executor.submit(self.step, code)
        wait_until(lambda: any("begun" in path for path in app.paths()))

    def step(self, code):
        body = {"code": code, "language": "python", "timeout": 300}
        return self._service.post(f"/v2/interact/{self.id}/execute", body)

    def answer(self):
        with self._executor:
            return self._step.result().json


@pytest.mark.full
def test_the_end_of_a_session_ends_its_program(service, app):
    step = CutShort(service, app)
    assert service.request("DELETE", f"/v2/interact/{step.id}").status == 200
    done = step.answer()
    assert done["error"] == "The session ended while the step ran."
    assert (done["stdout"], done["exitCode"], done["killed"]) == ("begun\n", 1, False)
    assert programs_of(service.pid) == []


@pytest.mark.full
@pytest.mark.parametrize("which", [0, 1], ids=["driver", "chromium"])
def test_a_program_that_loses_its_browser_ends_the_session(service, app, which):
    step = CutShort(service, app)
    os.kill(driver_and_chromium(step.home)[which], signal.SIGKILL)
    done = step.answer()
    assert "The session is over." in done["error"]
    assert done["stdout"] == "begun\n"
    assert step.step("1").status == 410


@pytest.mark.full
def test_a_program_gets_an_error_if_its_browser_has_gone(service, app):
    homes = homes_of(service)
    opened = service.post("/v2/interact", {"url": app.url("/form")}).json["id"]
    [home] = homes_of(service) - homes
    os.kill(driver_and_chromium(home)[0], signal.SIGKILL)
    path = f"/v2/interact/{opened}/execute"
    replies = [service.post(path, {"code": "page.url()"})]
    if replies[0].status == 200:  # it was faster than the heartbeat
        assert "The session is over." in replies[0].json["error"]
        replies.append(service.post(path, {"code": "page.url()"}))
    assert replies[-1].status == 410


@pytest.mark.full
def test_a_call_of_another_kind_of_program_ends_it_at_once(run):
    if platform.machine() != "x86_64":
        pytest.skip("x32 calls are of x86_64")
    done = run("python", "import ctypes; ctypes.CDLL(None).syscall(1 << 30 | 40, 0)")
    assert (done["killed"], done["success"]) == (False, False)
    assert "ended with the exit code" in done["error"]


BEYOND = {
    "node": """
const fs = require('fs'), net = require('net'), { execSync } = require('child_process');
const found = {};
async function attempt(name, work) {
  try { found[name] = String(await work()); } catch (e) { found[name] = `!${e.message}`; }
}
const connect = (port) => new Promise((done, fail) => net.connect(port, '127.0.0.1')
  .on('connect', () => done('connected')).on('error', fail));
found.environment = Object.keys(process.env).length;
found.files = fs.readdirSync('.').length;
await attempt('data', () => fs.readdirSync(DATA));
await attempt('process', () => fs.readFileSync('/proc/1/environ'));
await attempt('users', () => fs.readFileSync('/etc/passwd'));
await attempt('write', () => fs.writeFileSync('/opt/x', ''));
await attempt('shell', () => execSync('id'));
await attempt('service', () => connect(PORT));
await attempt('name', () => require('dns').promises.lookup('example.com'));
await attempt('request', () => context.request.get(CANARY));
await attempt('launch', () => browser.browserType().launch());
await attempt('context', () => browser.newContext());
await attempt('file', () => page.goto('file:///etc/passwd'));
await attempt('canary', () => page.goto(CANARY));
await attempt('fetch', () => page.evaluate((url) => fetch(url), CANARY));
await attempt('method', async () => (await context.newCDPSession(page))
  .send('DOM.setFileInputFiles', { files: ['/etc/passwd'] }));
await attempt('large', () => page.evaluate((text) => text, 'x'.repeat(3e6)));
found
""",
    "python": """
import ctypes, mmap, os, socket, subprocess
found = {}
async def attempt(name, work):
    try:
        done = work()
        found[name] = str(await done if hasattr(done, '__await__') else done)
    except Exception as error:
        found[name] = f'!{error}'
found['environment'] = len(os.environ)
found['files'] = len(os.listdir())
def is_open(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False
# Its own have low numbers; of those of the service it has the one for its reply.
found['inherited'] = sum(map(is_open, range(20, 256)))
await attempt('data', lambda: os.listdir(DATA))
await attempt('process', lambda: open('/proc/1/environ').read())
await attempt('users', lambda: open('/etc/passwd').read())
await attempt('write', lambda: open('/opt/x', 'w'))
await attempt('shell', lambda: subprocess.run('id', shell=True, check=True))
await attempt('service', lambda: socket.create_connection(('127.0.0.1', PORT)))
await attempt('name', lambda: socket.getaddrinfo('example.com', 80))
await attempt('request', lambda: context.request.get(CANARY))
await attempt('launch', lambda: browser.browser_type.launch())
await attempt('context', lambda: browser.new_context())
await attempt('file', lambda: page.goto('file:///etc/passwd'))
await attempt('canary', lambda: page.goto(CANARY))
await attempt('fetch', lambda: page.evaluate('(url) => fetch(url)', CANARY))
async def method():
    devtools = await context.new_cdp_session(page)
    await devtools.send('DOM.setFileInputFiles', {'files': ['/etc/passwd']})
await attempt('method', method)
def fill(count):
    with open('big', 'wb') as file:
        for _ in range(count):
            file.write(bytes(10**6))
await attempt('fill', lambda: fill(1000))
await attempt('memory file', lambda: os.memfd_create('x'))
await attempt('shared memory', lambda: mmap.mmap(-1, 10**6))
def unshare():
    calls = ctypes.CDLL(None, use_errno=True)
    if calls.unshare(0x10000000):
        raise OSError(ctypes.get_errno(), 'unshare')
await attempt('namespace', unshare)
await attempt('large', lambda: page.evaluate('(text) => text', 'x' * 3_000_000))
found
""",
}


@pytest.mark.full
@pytest.mark.parametrize("language", LANGUAGES)
def test_code_reaches_only_urls_allowed_for_scrapes(
    service, run, app, canary, data_dir, language
):
    assert (data_dir / "jobs.sqlite").exists()
    before = canary.count()
    port = urllib.parse.urlsplit(service.url).port
    names = {"DATA": str(data_dir), "PORT": port, "CANARY": canary.url}
    begin = "const " if language == "node" else ""
    head = "".join(f"{begin}{name} = {json.dumps(v)}\n" for name, v in names.items())
    done = run(language, head + BEYOND[language])
    assert done["success"] is True, done
    found = json.loads(done["result"])
    assert (found.pop("environment"), found.pop("files")) == (0, 0)
    assert found.pop("inherited", 1) == 1
    assert {name: told for name, told in found.items() if told[0] != "!"} == {}
    assert "Page.navigate takes http(s) URLs" in found["file"]
    assert "is not allowed in a session" in found["context"]
    assert "is not allowed in a session" in found["method"]
    assert "Executable doesn't exist" in found["launch"]
    assert canary.count() == before
    assert run("node", f"await page.goto({json.dumps(app.url('/form'))}); 1")["success"]


FORKS = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
MEMORY = """
import os, time
for _ in range(6):
    if not os.fork():
        kept = bytearray(200_000_000)
        time.sleep(60)
time.sleep(60)
"""
THREADS = """
import threading, time
threading.stack_size(32768)
while True:
    try:
        threading.Thread(target=time.sleep, args=(60,)).start()
    except RuntimeError:
        pass
"""
TOO_MUCH = [
    ("python", FORKS, "more than 16 processes"),
    ("python", THREADS, "more than 128 threads"),
    ("python", MEMORY, "more than 768 MiB of memory"),
    ("node", "x = []; while (true) x.push(new Array(1e5).fill({}))", "FATAL ERROR"),
    (
        "python",
        "for n in range(10**7): open(str(n), 'w').close()",
        "more than 10000 files",
    ),
    ("python", "'x' * 9_000_000", "The result has more than 8 MiB"),
]


@pytest.mark.full(keep=1)
@pytest.mark.slow_on("heap")
@pytest.mark.parametrize(
    ("language", "code", "why"),
    TOO_MUCH,
    ids=["processes", "threads", "memory", "heap", "files", "result"],
)
def test_too_much_ends_the_program_alone(service, run, language, code, why):
    done = run(language, code)
    assert (done["success"], done["exitCode"]) == (False, 1)
    assert why in done["error"]
    assert programs_of(service.pid) == []
    assert service.get("/health").status == 200


@pytest.mark.full
def test_a_malformed_protocol_message_ends_only_its_connection(run):
    code = """
import socket
ends = []
for _ in range(50):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect('/run/browser')
    ends.append(connection)
for connection in ends:
    try:
        connection.sendall(b'GET / HTTP/1.1\\r\\nX: ' + b'x' * 100_000)
    except OSError:
        pass
await page.title()
"""
    assert run("python", code)["result"] == "Form"


@pytest.mark.full
def test_the_python_client_runs_code(service, app):
    client = Firecrawl(api_key=KEY, api_url=service.url)
    opened = client.browser()
    url = app.url("/form")
    for language, code in (
        ("node", f"await page.goto('{url}'); console.log(1); await page.title()"),
        ("python", f"await page.goto('{url}')\nprint(1)\nawait page.title()"),
    ):
        done = client.browser_execute(opened.id, code, language=language)
        assert (done.result, done.stdout, done.exit_code) == ("Form", "1\n", 0)
    client.delete_browser(opened.id)


@pytest.mark.parametrize(
    ("listed", "language", "why"),
    [
        ("none", "node", "INTERACT_CODE, which has none"),
        ("python", "node", "INTERACT_CODE, which has only python"),
        ("python", "python", "bwrap is not installed"),
    ],
)
def test_a_language_is_on_if_it_is_listed_and_can_be_isolated(
    monkeypatch, data_dir, listed, language, why
):
    monkeypatch.setenv("PATH", str(data_dir))
    settings = Settings({"INTERACT_CODE": listed, "DATA_DIR": str(data_dir)})
    assert why in asyncio.run(CallerCode(settings).why_off(language))


def test_the_doctor_tries_the_languages(data_dir, monkeypatch):
    def line(listed):
        options = ("-s", f"INTERACT_CODE={listed}", "doctor", "--port", "0")
        done = CliRunner().invoke(main, [*options, "--data-dir", str(data_dir)])
        [found] = (x for x in done.output.splitlines() if "code of callers" in x)
        return found

    assert line("none").startswith("missing")
    assert line("node").startswith("works")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert line("node").startswith("fails")


def test_a_machine_without_namespaces_cannot_isolate_code(monkeypatch, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = Settings({"INTERACT_CODE": "node", "DATA_DIR": str(tmp_path)})
    why = asyncio.run(CallerCode(settings).why_off("node"))
    assert "cannot be isolated here: bwrap: No permissions" in why
    assert "docs/how-to/browser.md" in why


def test_callers_share_a_trial_of_isolation_that_times_out(monkeypatch, tmp_path):
    program, starts = tmp_path / "bwrap", tmp_path / "starts"
    program.write_text(f"#!/bin/sh\necho one >> {starts}\nexec /bin/sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(caller_code, "TRY_S", 1)
    code = CallerCode(Settings({"INTERACT_CODE": "node", "DATA_DIR": str(tmp_path)}))

    async def ask():
        return await asyncio.gather(*(code.why_off("node") for _ in range(20)))

    assert all("took longer than 1 s" in why for why in asyncio.run(ask()))
    assert starts.read_text() == "one\n"
    asyncio.run(code.why_off("node"))
    assert starts.read_text() == "one\none\n"


@pytest.mark.full
def test_a_session_whose_page_was_closed_returns_an_error(service, app):
    opened = service.post("/v2/interact", {"url": app.url("/form")}).json["id"]
    path = f"/v2/interact/{opened}/execute"
    done = service.post(path, {"code": "await page.close()", "formats": ["html"]})
    assert "The page of the session was closed" in done.json["error"]
    done = service.post(path, {"code": "page.url()", "language": "node"})
    assert done.json["result"] == "about:blank"
    service.request("DELETE", f"/v2/interact/{opened}")


def test_data_below_a_folder_of_the_sandbox_is_hidden(tmp_path):
    import playwright

    inside = Path(playwright.__file__).parent / "driver" / "data"
    given = command("node", inside, None)
    hidden = given.index("/opt/site/playwright/driver/data")
    assert given[hidden - 1] == "--tmpfs"
    assert "/opt/site/playwright/driver/data" not in command("node", tmp_path, None)
