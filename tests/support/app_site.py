"""A site whose pages need a browser, on 127.0.0.2 and, as another origin, 127.0.0.3.

``python -m tests.support.app_site`` prints both base URLs as one JSON line and ends with its
standard input. In pages ``{self}`` and ``{other}`` stand for these URLs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from typing import Any

from aiohttp import web

from tests.content.pdfmaker import pdf
from tests.support.waiting import WAIT_S
from tools.bench.processes import ServerProcess

HOSTS = ("127.0.0.2", "127.0.0.3")
WORDS = (
    "These are the words of a page that has been made by a script, and they are many."
)

CLIENT = """<!doctype html><title>Client</title><div id="root"></div>
<script src="/client.js"></script>"""
CLIENT_JS = """fetch('/data').then((r) => r.json()).then((d) => {
  document.querySelector('#root').innerHTML = `<h1>${d.title}</h1><p>${d.text}</p>`;
});"""
# An application that shows something first, and its content some milliseconds later.
LATE = """<!doctype html><title>Late</title><div id="root">%s</div>
<noscript>You need JavaScript</noscript><script>
setTimeout(() => fetch('/data').then((r) => r.json()).then((d) => {
  document.querySelector('#root').innerHTML = `<h1>${d.title}</h1><p>${d.text}</p>`;
}), %d);
</script>"""
NEVER = """<!doctype html><title>Never</title><div id="root"></div>
<noscript>You need JavaScript</noscript><script>setInterval(() => {}, 100);</script>"""
SHORT = """<!doctype html><title>Short</title><p id="text">All is well.</p><script>
setInterval(() => { document.querySelector('#text').textContent = 'Waited.'; }, 2500);
</script>"""
LIST = """<!doctype html><title>List</title><h1>Items</h1><ul id="list"></ul>
<div style="height: 10px" id="end"></div><script>
let shown = 0;
const add = () => { for (let i = 0; i < 10; i++) {
  const item = document.createElement('li');
  item.style.height = '100px'; item.textContent = `Item ${++shown}`;
  document.querySelector('#list').append(item);
} };
add();
%s
</script>"""
SCROLLED = """new IntersectionObserver((e) => { if (e[0].isIntersecting && shown < 50) add(); })
  .observe(document.querySelector('#end'));"""
MORE = """const button = document.createElement('button');
button.id = 'more'; button.textContent = 'More';
button.onclick = () => setTimeout(add, 50);
document.body.append(button);"""
SHADOW = """<!doctype html><title>Shadow</title><h1>Before</h1><x-open>in the slot</x-open>
<x-closed></x-closed><script>
customElements.define('x-open', class extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'open'}).innerHTML =
    '<style>p{}</style><p>In an open tree, <slot></slot>.</p>';
} });
customElements.define('x-closed', class extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'closed'}).innerHTML = '<p>In a closed tree.</p>';
} });
</script>"""
FRAMES = """<!doctype html><title>Frames</title><h1>Outside</h1>
<iframe src="/inside" width=300 height=100></iframe>
<iframe src="{other}/inside" width=300 height=100></iframe>"""
INSIDE = """<!doctype html><p>Inside a frame of <b id=host></b>, with
<a href="/link">a link</a>.</p>
<script>document.querySelector('#host').textContent = location.hostname</script>"""
STREAM = """<!doctype html><title>Stream</title><div id=root></div><script>
const show = (e) => {
  document.querySelector('#root').innerHTML = `<h1>News</h1><p>${e.data}</p>`;
};
%s
</script>"""
FORM = """<!doctype html><title>Form</title>
<input id=name><button id=go onclick="say('clicked')">Go</button>
<div id=box style="height:50px; overflow:auto"><div style="height:500px">tall</div></div>
<button class=many onclick="say('many')">1</button>
<button class=many onclick="say('many')">2</button>
<p id=out></p><script>
const say = (word) => { document.querySelector('#out').textContent += ` ${word}`; };
const name = document.querySelector('#name');
name.onkeydown = (e) => { if (e.key === 'Enter') say(`entered ${e.target.value}`); };
document.querySelector('#box').onscroll = () => say('scrolled');
setTimeout(() => { const late = document.createElement('p'); late.id = 'late';
  late.textContent = 'Late'; document.body.append(late); }, 700);
</script>"""
COLOURS = """<!doctype html><title>Colours</title><style>
body { margin: 0; height: 1500px; background: #ffffff; }
div { position: absolute; width: 100px; height: 100px; }
</style><div style="left:0;top:0;background:#ff0000"></div>
<div style="left:100px;top:0;background:#00ff00"></div>
<div style="left:0;top:1400px;background:#0000ff"></div>"""
FACTS = """<!doctype html><title>Facts</title>
<meta name="viewport" content="width=device-width"><pre id=out></pre><script>
document.querySelector('#out').textContent = JSON.stringify({
  agent: navigator.userAgent, width: innerWidth, height: innerHeight,
  touch: navigator.maxTouchPoints > 0, zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  language: navigator.language, languages: navigator.languages, scale: devicePixelRatio,
});
</script>"""
STORAGE = """<!doctype html><title>Storage</title><pre id=out></pre><script>
const count = Number(localStorage.getItem('count') || 0) + 1;
localStorage.setItem('count', count);
const known = /seen=(\\d+)/.exec(document.cookie);
document.cookie = `seen=${Number(known ? known[1] : 0) + 1}; max-age=999`;
document.querySelector('#out').textContent = JSON.stringify({ count, cookie: document.cookie });
</script>"""
ADS = """<!doctype html><title>Ads</title><h1>Words</h1><p>Beside advertising.</p>
<script src="/ads.js"></script><script src="/pagead/x.js"></script>
<div id="cookie-banner" style="position:fixed;bottom:0">We use cookies.
<button onclick="document.title='Accepted'">Accept all</button></div>"""
NESTED = """<!doctype html><title>Nested</title><h1>Outside</h1>
<iframe src="/nest?{next}" width=400 height=200></iframe>
<script>
const level = Number(location.search.slice(1) || 0);
document.title = `Level ${level}`;
document.querySelector('h1').textContent = `Level ${level} of ${location.hostname}`;
const frame = document.querySelector('iframe');
const at = level % 2 ? '{self}' : '{other}';
if (level < 7) frame.src = `${at}/nest?${level + 1}`; else frame.remove();
if (level === 2) {
  const host = document.createElement('div');
  host.attachShadow({mode: 'closed'}).innerHTML =
    '<p>In a tree of a frame.</p><iframe width=99 height=99 srcdoc="<p>Inside that.">';
  document.body.append(host);
}
</script>"""
STUCK = """<!doctype html><title>Stuck</title><h1>Outside</h1><p>Can be read.</p>
<iframe src="{other}/loop" width=300 height=100></iframe>
<iframe src="/inside" width=300 height=100></iframe>
<iframe src="/inside" style="display: none"></iframe>"""
LARGE = """<!doctype html><title>Large</title><h1>Outside</h1>
<iframe width=99 height=99 src="/long"></iframe>
<iframe width=99 height=99 srcdoc="<p>A small one.</p>"></iframe>"""
ECHO = """<!doctype html><title>Echo</title><div id="root"></div>
<script src="/echo.js"></script>"""
ECHO_JS = """fetch('/headers').then((r) => r.text()).then((text) => {
  document.querySelector('#root').textContent = `${document.cookie} ${text}`;
});"""
MOVING = "<script>location.replace('{to}')</script>"
PAPER = pdf([[(72, 700, 12, "The words of a paper.")]])
SLOW = f"""<!doctype html><title>Slow</title><h1>Slow</h1><p>{WORDS}</p>"""
# The query names the part of the page that gets 256 Mi characters.
HUGE = """<!doctype html><title>Huge</title><h1>Huge</h1><p>Its words are few.</p><script>
const kind = location.search.slice(1);
const text = () => 'a'.repeat(2 ** 28);
setTimeout(() => {
  if (kind === 'title') document.title = text();
  if (kind === 'attribute') document.body.setAttribute('data-x', text());
  if (kind === 'fetch') fetch('/data', { method: 'POST', body: text() });
  if (kind === 'error') throw new Error(text());
  if (kind === 'console') console.log(text());
});
</script>"""
# The query is an order for tests.browser.fragile_providers.
ENDER = f"""<!doctype html><title>Ender</title><h1>Ender</h1><p>{WORDS}</p>
<script>console.log(`end ${{location.search.slice(1)}}`)</script>"""
# As in docsify: the site sends the same shell for all routes, which a script fills.
ROUTED = f"""<!doctype html><title>Routed</title><div id="app"></div><script>
const pages = {{
  '/': '<h1>Home</h1><a href="#/guide">Guide</a> <a href="#/guide/">Guide again</a>'
    + ' <a href="#below">Below</a> <a href="#/">Home</a><h2 id="below">Below</h2>',
  '/guide': '<h1 id="first"><a href="#/guide?id=first">Guide</a></h1>'
    + '<a href="#!setup">Set-up</a> <a href="#">Top</a> <a href="#!">Menu</a>',
  '!setup': '<h1>Set-up</h1><a href="#/guide">Back</a>',
}};
const route = (location.hash.slice(1) || '/').split('?')[0].replace(/(.)\\/$/, '$1');
document.querySelector('#app').innerHTML =
  `${{pages[route]}}<p>Of the route ${{route}}. {WORDS}</p>`;
</script>"""
# A part of the page that never comes, and the words behind it.
HELD = """<!doctype html><html><head><title>Held</title>%s</head>
<body>%s<h1>Held up</h1><p id="end">The last words of a page that waits.</p>
<script>document.querySelector('#end').append(' Its scripts ran.')</script>"""
FONT = """<style>@font-face { font-family: Slow; src: url(/never.woff) }
body { font-family: Slow }</style>"""
LOOP = "<!doctype html><title>Loop</title><p>before</p><script>for (;;);</script>"

# The query says how: rows that are absolute, of a table, used again, or of the window.
ROWS = """<!doctype html><title>Rows</title><h1>Rows</h1><p>They are many.</p>
<div id=box style="height:400px;width:600px;overflow:auto;position:relative"></div><script>
const kind = location.search.slice(1), count = kind === 'huge' ? 100000 : 500;
const box = document.querySelector('#box');
const size = 30, shown = 40;
const start = () => Math.max(0, Math.min(count - shown, Math.floor(
  (kind === 'window' ? scrollY - box.offsetTop : box.scrollTop) / size)));
const name = (n) => `Row number ${n + 1} of the list`;
const table = kind === 'table' || kind === 'headed';
if (kind === 'window') box.style.cssText = 'position:relative';
box.innerHTML = table
  ? `<table aria-rowcount="${count + 1}"><thead><tr style="position:sticky;top:0"><th>Name of`
    + ` the row</th></tr></thead><tbody></tbody></table>`
  : `<div style="position:relative;height:${count * size}px"></div>`;
const list = box.querySelector('tbody') || box.firstChild;
const show = () => {
  const from = start();
  if (table) {
    list.innerHTML = `<tr style="height:${from * size}px"></tr>`;
    for (let n = from; n < from + shown; n++)
      list.innerHTML += `<tr aria-rowindex=${n + 2} style="height:${size}px"><td>${name(n)}</td></tr>`;
    list.innerHTML += `<tr style="height:${(count - from - shown) * size}px"></tr>`;
    return;
  }
  if (kind !== 'again') list.innerHTML = '';
  for (let n = from; n < from + shown; n++) {
    const row = (kind === 'again' && list.children[n % shown]) || document.createElement('div');
    row.style.cssText = `position:absolute;height:${size}px;top:${n * size}px`;
    row.textContent = name(n);
    if (!row.isConnected) list.append(row);
  }
};
(kind === 'window' ? window : box).addEventListener('scroll', () => requestAnimationFrame(show));
show();
</script><p>The words behind the list.</p>"""
TRICKLES = {"/trickle.css": "text/css", "/held-document": "text/html"}
PAGES: dict[str, str] = {
    "/client": CLIENT,
    "/late": LATE % ("", 300),
    "/late-spinner": LATE % ("Loading…", 1000),
    "/late-for-good": LATE % ("Loading…", 60_000),
    "/unrendered": NEVER,
    "/short": SHORT,
    "/scrolled": LIST % SCROLLED,
    "/endless": LIST
    % SCROLLED.replace("&& shown < 50) add()", ") setTimeout(add, 60)"),
    "/more": LIST % MORE,
    "/shadow": SHADOW,
    "/frames": FRAMES,
    "/nest": NESTED,
    "/stuck": STUCK,
    "/large": LARGE,
    "/long": "word " * 120_000,
    "/echo": ECHO,
    "/leave": "<script>document.cookie = 'left=1'</script>"
    + MOVING.replace("{to}", "{other}/return"),
    "/return": MOVING.replace("{to}", "{self}/echo"),
    "/to-paper": MOVING.replace("{to}", "/paper"),
    "/to-attachment": MOVING.replace("{to}", "/attachment"),
    "/saves-later": f"<p>{WORDS}</p><script>onload = () =>"
    " setTimeout(() => { location = '/attachment' }, 100)</script>",
    "/there": MOVING.replace("{to}", "/back"),
    "/back": MOVING.replace("{to}", "/there"),
    "/inside": INSIDE,
    "/ws": STREAM % "new WebSocket('{ws}/socket').onmessage = show;",
    "/sse": STREAM % "new EventSource('/events').onmessage = show;",
    "/form": FORM,
    "/colours": COLOURS,
    "/facts": FACTS,
    "/storage": STORAGE,
    "/ads": ADS,
    "/moving": MOVING.replace("{to}", "/client"),
    "/routed/": ROUTED,
    "/slow": SLOW,
    "/loop": LOOP,
    "/rows": ROWS,
    "/held-script": HELD % ("<script src=/never.js></script>", ""),
    "/held-style": HELD % ("<link rel=stylesheet href=/never.css>", ""),
    "/held-import": HELD % ("<style>@import '/never.css';</style>", ""),
    "/held-trickle": HELD % ("<link rel=stylesheet href=/trickle.css>", ""),
    "/held-other": HELD % ("<script src={other}/never.js></script>", ""),
    "/held-two": HELD
    % ("<script src=/never.js></script>", "<script src={other}/never-2.js></script>"),
    "/held-body": HELD % ("", "<p>First words.</p><script src=/never.js></script>"),
    "/held-image": HELD % ("", "<img src=/never.png alt=Never>"),
    "/held-font": HELD % (FONT, ""),
    "/held-client": CLIENT.replace(
        "</title>", "</title><script src=/never.js></script>"
    ),
    "/huge": HUGE,
    "/ender": ENDER,
    "/links": "".join(f"<a href='/client?n={n}'>page {n}</a> " for n in range(4)),
}


class AppSite(ServerProcess):
    """The site in its own process, a context manager."""

    def __init__(self) -> None:
        super().__init__("tests.support.app_site")
        self.address, self.other = json.loads(self.line("["))

    def url(self, path: str) -> str:
        return self.address + path

    def paths(self) -> list[str]:
        """Return host and path of the requests since the last call, in order."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url("/log"), timeout=WAIT_S) as found:
            return [f"{host}{path}" for host, path in json.load(found)]


async def _page(request: web.Request) -> web.StreamResponse:
    log: list[tuple[str, str]] = request.app["log"]
    path = request.path
    if path == "/log":
        found = [*log]
        log.clear()
        return web.json_response(found)
    log.append((request.url.host or "", request.path_qs))
    texts = request.app["texts"]
    if path == "/socket":
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await asyncio.sleep(0.3)
        await socket.send_str(f"From a socket. {WORDS}")
        await socket.receive()
        return socket
    if path == "/events":
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await asyncio.sleep(0.3)
        await stream.write(f"data: From a stream. {WORDS}\n\n".encode())
        await asyncio.sleep(20)
        return stream
    if path.startswith("/never") or path in TRICKLES:
        return await _never(request)
    if path == "/data":
        await asyncio.sleep(0.2)
        return web.json_response({"title": "Made by a script", "text": WORDS})
    if path == "/headers":
        return web.json_response(dict(request.headers))
    if path in {"/to-other", "/to-echo"}:
        to = "/headers" if path == "/to-other" else "/echo"
        raise web.HTTPFound(texts["{other}"] + to)
    if path == "/attachment":
        name = {"Content-Disposition": 'attachment; filename="../../evil.txt"'}
        return web.Response(text="The text of a file.", headers=name)
    if path == "/paper":
        return web.Response(body=PAPER, content_type="application/pdf")
    if path.endswith(".js"):
        known = {"/client.js": CLIENT_JS, "/echo.js": ECHO_JS}
        body = known.get(path, "window.ad = true;")
        return web.Response(text=body, content_type="text/javascript")
    if path not in PAGES:
        return web.Response(
            text="<h1>Nothing</h1>", status=404, content_type="text/html"
        )
    body = PAGES[path]
    for name, value in texts.items():
        body = body.replace(name, value)
    return web.Response(text=body, content_type="text/html")


async def _never(request: web.Request) -> web.StreamResponse:
    """Return no response, or one that goes on and on."""
    if (kind := TRICKLES.get(request.path)) is None:
        await asyncio.sleep(WAIT_S)
    stream = web.StreamResponse(headers={"Content-Type": kind or "text/plain"})
    await stream.prepare(request)
    for _ in range(int(5 * WAIT_S)):
        await stream.write(b"p { color: red } ")
        await asyncio.sleep(0.2)
    return stream


async def _run() -> None:
    addresses = []
    texts: dict[str, Any] = {}
    for host in HOSTS:
        app = web.Application()
        app["log"], app["texts"] = texts.setdefault("log", []), texts
        app.router.add_route("*", "/{path:.*}", _page)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        server = web.TCPSite(runner, host, 0)
        await server.start()
        addresses.append(server.name.replace("0.0.0.0", host))
        port = runner.addresses[0][1]
        addresses[-1] = f"http://{host}:{port}"
    del texts["log"]
    texts["{self}"], texts["{other}"] = addresses
    texts["{ws}"] = addresses[0].replace("http", "ws")
    print(json.dumps(addresses), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_run())
