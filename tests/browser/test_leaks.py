"""Nothing that a page does reaches a forbidden place: no connection, no datagram."""

from __future__ import annotations

import pytest

from tests.browser.listener import Listener
from tests.support.scripted_site import ScriptedSite, answer, moved

JS = "text/javascript"

# Ways of a page to an address; {bad} is http://127.0.0.1:PORT, {host} without scheme,
# {udp} the port of the datagrams.
WAYS = {
    "fetch": "fetch('{bad}/fetch', {mode: 'no-cors'}).catch(() => 0)",
    "xhr": "const x = new XMLHttpRequest(); x.open('GET', '{bad}/xhr'); x.send()",
    "beacon": "navigator.sendBeacon('{bad}/beacon', 'x')",
    "ping": "const p = document.createElement('a'); p.href = '#p'; p.ping = '{bad}/ping';"
    " document.body.append(p); p.click()",
    "image": "new Image().src = '{bad}/image'",
    "iframe": "add('iframe', {src: '{bad}/iframe'})",
    "websocket": "new WebSocket('ws://{host}/ws')",
    "popup": "window.open('{bad}/popup')",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('{bad}/worker')`])))",
    "shared worker": "new SharedWorker(URL.createObjectURL("
    "new Blob([`fetch('{bad}/shared')`])))",
    "preconnect": "add('link', {rel: 'preconnect', href: '{bad}'})",
    "dns-prefetch": "add('link', {rel: 'dns-prefetch', href: 'http://canary.localhost'})",
    "prefetch": "add('link', {rel: 'prefetch', href: '{bad}/prefetch'})",
    "preload": "add('link', {rel: 'preload', as: 'image', href: '{bad}/preload'})",
    "modulepreload": "add('link', {rel: 'modulepreload', href: '{bad}/module.js'})",
    "prerender": "const s = document.createElement('script'); s.type = 'speculationrules';"
    " s.textContent = JSON.stringify({prerender: [{source: 'list', urls: ['{bad}/pre']}]});"
    " document.head.append(s)",
    "favicon": "add('link', {rel: 'icon', href: '{bad}/favicon.ico'})",
    "stylesheet": "add('link', {rel: 'stylesheet', href: '{bad}/style.css'})",
    "css url": "document.body.style.backgroundImage = `url('{bad}/css')`",
    "font": "new FontFace('f', `url('{bad}/font')`).load().catch(() => 0)",
    "script": "add('script', {src: '{bad}/script.js'})",
    "import": "import('{bad}/import.js').catch(() => 0)",
    "object": "add('object', {data: '{bad}/object', type: 'text/html'})",
    "embed": "add('embed', {src: '{bad}/embed', type: 'text/html'})",
    "video": "add('video', {src: '{bad}/video', autoplay: true})",
    "audio track": "add('audio', {src: '{bad}/audio', preload: 'auto'})",
    "event source": "new EventSource('{bad}/events')",
    "form": "const f = add('form', {action: '{bad}/form', method: 'POST',"
    " target: 'frame'}); add('iframe', {name: 'frame'}); f.submit()",
    "webtransport": "new WebTransport('https://{host}/').ready.catch(() => 0)",
    "webrtc": "const r = new RTCPeerConnection({iceServers: ["
    "{urls: 'stun:127.0.0.1:{udp}'},"
    " {urls: 'turn:127.0.0.1:{udp}?transport=tcp', username: 'a', credential: 'b'}]});"
    " r.createDataChannel('c'); r.createOffer().then((o) => r.setLocalDescription(o))",
    "service worker": "navigator.serviceWorker.register('/sw.js').catch(() => 0)",
    "localhost": "fetch('http://localhost:{port}/name', {mode: 'no-cors'}).catch(() => 0)",
    "name below localhost": "fetch('http://a.localhost:{port}/', {mode: 'no-cors'})"
    ".catch(() => 0)",
    "ipv6": "fetch('http://[::1]:{port}/six', {mode: 'no-cors'}).catch(() => 0)",
    "mapped": "fetch('http://[::ffff:127.0.0.1]:{port}/', {mode: 'no-cors'})"
    ".catch(() => 0)",
    "redirect": "fetch('/moved', {mode: 'no-cors'}).catch(() => 0)",
    "redirected frame": "add('iframe', {src: '/moved'})",
    "form of a frame": "add('iframe', {srcdoc: `<meta http-equiv=refresh"
    ' content="0;url={bad}/srcdoc">`})',
    "reporting": "add('iframe', {src: '/reporting'})",
    "file": "fetch('file:///etc/passwd').catch(() => 0);"
    " add('iframe', {src: 'file:///etc/passwd'})",
}


@pytest.fixture(scope="module")
def forbidden():
    canary = Listener()
    yield canary
    canary.close()


@pytest.fixture(scope="module")
def hostile(forbidden):
    """A site whose front page tries every way."""
    steps = "\n".join(
        f"try {{ {script}; tried.push({name!r}); }} catch (e) {{ tried.push({name!r}); }}"
        for name, script in WAYS.items()
    )
    # Each in a block of its own, for the names.
    steps = "\n".join(f"{{ {line} }}" for line in steps.split("\n"))
    front = f"""<!doctype html><title>Hostile</title><p id=out></p><script>
      const tried = [];
      const add = (name, values) => {{
        const e = document.createElement(name); Object.assign(e, values);
        for (const [k, v] of Object.entries(values)) e.setAttribute(k, v);
        document.body.append(e); return e; }};
      {steps}
      document.querySelector('#out').textContent = `tried ${{tried.length}} ways`;
    </script>"""
    reporting = {
        "Content-Security-Policy": "img-src 'none'; report-uri {bad}/csp",
        "NEL": '{"report_to": "n", "max_age": 99, "success_fraction": 1.0}',
        "Report-To": '{"group": "n", "max_age": 99, "endpoints": [{"url": "{bad}/nel"}]}',
        "Link": "<{bad}/link.css>; rel=preload; as=style, <{bad}>; rel=preconnect",
    }
    pages = {
        "/": answer(
            forbidden.fill(front),
            **{
                k.replace("-", "_"): forbidden.fill(v)
                for k, v in reporting.items()
                if k != "Content-Security-Policy"
            },
        ),
        "/reporting": answer(
            "<img src=/x.png>",
            **{k.replace("-", "_"): forbidden.fill(v) for k, v in reporting.items()},
        ),
        "/sw.js": answer(forbidden.fill("fetch('{bad}/sw')"), Content_Type=JS),
        "/moved": moved(forbidden.fill("{bad}/moved"), 302),
        "/script-move": forbidden.fill(
            "<script>location.href = '{bad}/moved'</script>"
        ),
        "/meta-move": forbidden.fill(
            '<meta http-equiv=refresh content="0;url={bad}/meta"><p>moving</p>'
        ),
        "/file-move": "<script>location.href = 'file:///etc/passwd'</script><p>stays</p>",
        "/front": "<p>front</p>",
    }
    with ScriptedSite(pages) as site:
        yield site


def render(service, site, path, **options):
    body = {"url": site.url(path), "maxAge": 0, "timeout": 200_000, "waitFor": 1500}
    return service.post("/v2/scrape", {**body, "blockAds": False, **options})


def test_no_script_or_element_of_a_page_reaches_a_forbidden_url(
    service, hostile, forbidden
):
    reply = render(service, hostile, "/", formats=["markdown", "screenshot"])
    assert reply.status == 200, reply.json
    assert f"tried {len(WAYS)} ways" in reply.json["data"]["markdown"]
    assert "root:" not in reply.json["data"]["markdown"]
    assert len(WAYS) >= 20
    assert forbidden.seen == []


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", ["/moved", "/script-move", "/meta-move"])
def test_a_page_that_navigates_to_a_forbidden_url_fails(
    service, hostile, forbidden, path
):
    reply = render(service, hostile, path, formats=["rawHtml", "screenshot"])
    assert (reply.status, reply.json.get("code")) == (403, "UNSUPPORTED_SITE")
    assert "127.0.0.1" not in str(reply.json)
    assert forbidden.seen == []


def test_a_page_cannot_move_to_a_file(service, hostile):
    reply = render(service, hostile, "/file-move", formats=["rawHtml"])
    assert "root:" not in str(reply.json)


def test_scripts_of_the_caller_reach_no_more_than_the_page(service, hostile, forbidden):
    script = forbidden.fill(
        "await fetch('{bad}/mine', {mode: 'no-cors'}).then(() => 'got', () => 'refused')"
    )
    actions = [{"type": "executeJavascript", "script": f"return {script}"}]
    reply = render(service, hostile, "/front", actions=actions, waitFor=0)
    [found] = reply.json["data"]["actions"]["javascriptReturns"]
    assert found["type"] == "string"
    assert forbidden.seen == []


def test_the_browser_does_not_fetch_forbidden_ip_addresses(service, forbidden):
    for host in ("127.0.0.1", "localhost", "0x7f000001", "[::1]"):
        url = forbidden.fill(f"http://{host}:{{port}}/")
        reply = service.post("/v2/scrape", {"url": url, "formats": ["screenshot"]})
        assert reply.json["success"] is False
        assert reply.status in {400, 403, 200}
    assert forbidden.seen == []
