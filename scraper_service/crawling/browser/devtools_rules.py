"""The part of the DevTools protocol that callers may use in the browser of their session.

The browser is a process of the service. So methods that reach files, its proxy, other
contexts, or the protocol itself past this filter are refused, and domains that are not known
here are, too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DOMAINS: Final = frozenset(
    "Accessibility Animation Audits Browser CSS Console DOM DOMDebugger DOMSnapshot"
    " DOMStorage Debugger DeviceOrientation Emulation EventBreakpoints Fetch IO IndexedDB"
    " Input Inspector LayerTree Log Media Network Overlay Page Performance"
    " PerformanceTimeline Profiler Runtime Schema Security ServiceWorker Storage Target"
    " WebAudio WebAuthn".split()
)
#: The methods of domains that are mostly refused.
ONLY: Final = {
    "Browser": frozenset(
        "close getVersion getWindowBounds getWindowForTarget grantPermissions"
        " resetPermissions setDownloadBehavior setWindowBounds".split()
    ),
    "Target": frozenset(
        "activateTarget attachToTarget closeTarget createTarget detachFromTarget"
        " getBrowserContexts getTargetInfo getTargets setAutoAttach"
        " setDiscoverTargets".split()
    ),
}
REFUSED: Final = frozenset(
    {
        "DOM.getFileInfo",
        "DOM.setFileInputFiles",
        "Network.loadNetworkResource",
        "Page.crash",
        "Page.handleFileChooser",
        "Storage.overrideQuotaForOrigin",
    }
)
_SCHEMES = ("http://", "https://", "data:")
CLOSE = "Browser.close"


class MethodRefused(ValueError):
    """Raised for a message that a caller may not send. ``reply`` is the answer to it."""

    def __init__(self, reply: str):
        self.reply = reply
        super().__init__(reply)


def permitted(text: str, context_id: str) -> str:
    """Return a message of a caller as the browser may get it.

    ``context_id`` is that of the session's own context, where new pages are opened. Raises
    :exc:`MethodRefused` with an error reply, and :exc:`ValueError` for what is no message.
    """
    message = json.loads(text)
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise ValueError("a message must be an object with a method")
    params = message.get("params") or {}
    if not isinstance(params, dict):
        raise ValueError("params must be an object")
    method = message["method"]
    domain, _, name = method.partition(".")
    if why := _refusal(method, domain, name, params):
        raise MethodRefused(error_reply(message, why))
    if (change := _CHANGES.get(method)) is not None:
        message["params"] = change(params, context_id)
        return json.dumps(message)
    return text


def error_reply(message: Mapping[str, Any], why: str) -> str:
    """Return the protocol's error reply to a message."""
    reply = {"id": message.get("id"), "error": {"code": -32000, "message": why}}
    if "sessionId" in message:
        reply["sessionId"] = message["sessionId"]
    return json.dumps(reply)


def _refusal(
    method: str, domain: str, name: str, params: Mapping[str, Any]
) -> str | None:
    """Return why a method is refused, None if it is not."""
    only = ONLY.get(domain)
    if (
        domain not in DOMAINS
        or method in REFUSED
        or (only is not None and name not in only)
    ):
        return f"{method} is not allowed in a session of this service"
    if method in {"Page.navigate", "Target.createTarget"}:
        url = str(params.get("url") or "about:blank").strip().lower()
        if url != "about:blank" and not url.startswith(_SCHEMES):
            return f"{method} takes http(s) URLs, data: URLs and about:blank"
    if method in {"Target.attachToTarget", "Target.setAutoAttach"}:
        is_off = method.endswith("AutoAttach") and not params.get("autoAttach")
        if not is_off and not params.get("flatten"):
            return f"{method} needs flatten: true"
    if method == "Input.dispatchDragEvent" and (params.get("data") or {}).get("files"):
        return "files of the server cannot be dropped"
    return None


def _in_own_context(params: dict[str, Any], context_id: str) -> dict[str, Any]:
    return {**params, "browserContextId": context_id}


def _without_downloads(params: dict[str, Any], context_id: str) -> dict[str, Any]:
    return {"behavior": "deny", "browserContextId": context_id}


def _deny(params: dict[str, Any], context_id: str) -> dict[str, Any]:
    return {"behavior": "deny"}


_CHANGES: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "Browser.grantPermissions": _in_own_context,
    "Browser.resetPermissions": _in_own_context,
    "Browser.setDownloadBehavior": _without_downloads,
    "Page.setDownloadBehavior": _deny,
    "Target.createTarget": _in_own_context,
}
