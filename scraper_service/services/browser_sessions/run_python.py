"""Runs code of a caller in the sandbox, with ``page``, ``context`` and ``browser``.

The request comes as JSON by the standard input: ``code``, ``endpoint`` (of the browser),
``target`` (the page, in the DevTools protocol), ``timeout_ms`` of an action, and ``reply``, the
descriptor that gets ``=`` and the result, ``!`` and an error, or nothing. Nothing here guards
against the code: the sandbox does.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
import linecache
import os
import sys
import traceback
from typing import Any

NAME = "<code>"


def text_of(value: object) -> str | None:
    """Return a value as text, JSON where possible; None for None."""
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


async def page_of(browser: Any, target: str) -> Any:
    """Return the page of the session among those of the browser."""
    context = browser.contexts[0]
    for page in context.pages:
        if len(context.pages) == 1:
            return page
        session = await context.new_cdp_session(page)
        found = await session.send("Target.getTargetInfo")
        await session.detach()
        if found["targetInfo"]["targetId"] == target:
            return page
    # The page of the session was closed.
    return context.pages[0] if context.pages else await context.new_page()


async def value_of(code: str, names: dict[str, Any]) -> object:
    """Run code with ``await`` at its top level. Return the value of the last expression."""
    tree = ast.parse(code, NAME)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    await _run(compile(tree, NAME, "exec", flags), names)
    if not isinstance(last, ast.Expr):
        return None
    value = await _run(compile(ast.Expression(last.value), NAME, "eval", flags), names)
    return await value if inspect.isawaitable(value) else value


async def _run(code: Any, names: dict[str, Any]) -> Any:
    found = eval(code, names)  # noqa: S307  # what the sandbox is for
    return await found if code.co_flags & inspect.CO_COROUTINE else found


def print_failure(error: BaseException) -> None:
    """Print an error with the lines of the code, without those of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


async def run(request: dict[str, Any]) -> None:
    """Run the code of a request, and send the reply."""
    from playwright.async_api import async_playwright  # noqa: PLC0415  # found by main

    # The driver would make the error stream of this process one that does not wait.
    nowhere = open(os.devnull, "w")  # noqa: ASYNC230, PTH123, SIM115  # as long as it
    with contextlib.redirect_stderr(nowhere):
        playwright = await async_playwright().start()
    os.environ.clear()  # the driver has its own
    if "code" not in request:  # a trial of the sandbox
        await playwright.stop()
        return
    reply = ""
    try:
        value = text_of(await _do(request, playwright))
        reply = "" if value is None else f"={value}"
    except SystemExit as error:
        if error.code not in {None, 0}:
            reply = f"!SystemExit: {error.code}"
    except BaseException as error:  # any of the caller's
        print_failure(error)
        reply = f"!{type(error).__name__}: {error}"
    send(request, reply)


async def _do(request: dict[str, Any], playwright: Any) -> object:
    browser = await playwright.chromium.connect_over_cdp(request["endpoint"])
    page = await page_of(browser, request["target"])
    page.context.set_default_timeout(request["timeout_ms"])
    code: str = request["code"]
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    names = {"page": page, "context": page.context, "browser": browser}
    return await value_of(code, {"__name__": "__main__", **names})


def send(request: dict[str, Any], reply: str) -> None:
    """Send the reply, and end: what the code has started ends with the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(request["reply"], "wb") as file:  # noqa: PTH123  # a descriptor
        file.write(reply.encode("utf-8", "replace"))
    os._exit(reply.startswith("!"))


def main() -> None:
    """Read the request, and do it."""
    sys.path.append(sys.argv[1])
    asyncio.run(run(json.loads(sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
