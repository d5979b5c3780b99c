"""Scripts that run inside pages."""

from __future__ import annotations

# Runs before the page's scripts: counts pending work and keeps shadow trees readable.
# A page is restless after it starts work that may change the page later.
WATCH = """
(() => {
  const setTimeout = window.setTimeout.bind(window);
  const state = {
    open: 0, last: performance.now(), restless: false, due: 0,
    rest: (ms) => new Promise((next) => setTimeout(next, ms)),
  };
  Object.defineProperty(window, Symbol.for('scraper-watch'), { value: state });
  const begin = () => {
    let over = false;
    state.open++;
    state.restless = true;
    return () => {
      if (!over) { over = true; state.open--; state.last = performance.now(); }
    };
  };
  const changed = (records) => {
    state.last = performance.now();
    if (document.readyState !== 'complete') return;  // its load event waits for scripts
    for (const record of records)
      for (const node of record.addedNodes)
        if ((node.localName === 'script' && node.src) || node.rel === 'modulepreload') {
          const end = begin();
          for (const kind of ['load', 'error'])
            node.addEventListener(kind, () => setTimeout(end), { once: true });
        }
  };
  const watch = (root) => new MutationObserver(changed)
    .observe(root, { subtree: true, childList: true, characterData: true });
  watch(document);
  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (init) {
    const root = attachShadow.call(this, { ...init, mode: 'open' });
    watch(root);
    return root;
  };
  const fetch = window.fetch;
  window.fetch = function (...args) {
    const end = begin();
    const answer = fetch.apply(this, args);
    answer.then(end, end);
    return answer;
  };
  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (...args) {
    const end = begin();
    this.addEventListener('loadend', end, { once: true });
    try { return send.apply(this, args); } catch (error) { end(); throw error; }
  };
  for (const name of ['WebSocket', 'EventSource']) {
    window[name] = new Proxy(window[name], {
      construct(target, args, type) {
        const stream = Reflect.construct(target, args, type);
        const end = begin();  // its first message is content, later ones are news
        for (const kind of ['message', 'error', 'close'])
          stream.addEventListener(kind, () => setTimeout(end), { once: true });
        return stream;
      },
    });
  }
  const LATER = [
    'setTimeout', 'setInterval', 'requestAnimationFrame', 'requestIdleCallback',
    'IntersectionObserver', 'ResizeObserver', 'MessageChannel', 'BroadcastChannel',
    'Worker', 'SharedWorker', 'Image', 'postMessage',
  ];
  for (const name of LATER.filter((name) => window[name]))
    window[name] = new Proxy(window[name], {
      apply(target, self, args) {
        state.restless = true;
        const ms = +args[1] || 0;
        if (name === 'setTimeout' && ms <= 4000)  // SETTLE waits no longer
          state.due = Math.max(state.due, performance.now() + ms);
        return Reflect.apply(target, self, args);
      },
      construct(target, args, type) {
        state.restless = true;
        return Reflect.construct(target, args, type);
      },
    });
  const openDatabase = IDBFactory.prototype.open;
  IDBFactory.prototype.open = function (...args) {
    state.restless = true;
    return openDatabase.apply(this, args);
  };
})();
"""

# Waits until the page is quiet for a while, or a time-out. A page without a means to change
# only gets a moment. An empty shell, which shows less than ``few`` characters, is not quiet
# before its timers have run; one without any text never is. 0 takes no page for a shell.
SETTLE = """
async ([quiet, moment, most, anew, few]) => {
  const state = window[Symbol.for('scraper-watch')];
  if (!state || !document.scripts.length) return;
  if (anew) state.last = performance.now();
  // Modules may import others at any time, which nothing tells of.
  if (document.querySelector('[type=module], [rel=modulepreload]')) state.restless = true;
  const UNSEEN = ['script', 'style', 'noscript', 'template'];
  const MEDIA = 'audio, canvas, embed, form, frame, iframe, object, video';
  const textLength = () => {
    const nodes = [document.body];
    let length = 0;
    while (nodes.length && length < few) {
      const node = nodes.pop();
      if (!node || UNSEEN.includes(node.localName)) continue;
      if (node.nodeType === Node.TEXT_NODE) length += node.data.trim().length;
      for (const child of node.childNodes) nodes.push(child);
      if (node.shadowRoot) nodes.push(node.shadowRoot);
    }
    return length;
  };
  const isShell = () => {
    const length = state.restless && few ? textLength() : few;
    if (length >= few || document.querySelectorAll('body img, body a[href]').length > 2)
      return false;
    const seen = (e) => e.offsetWidth * e.offsetHeight > 4;
    if ([...document.querySelectorAll(MEDIA)].some(seen)) return false;
    const isBare = !length && !document.querySelector('body img');
    return isBare || performance.now() - state.due < 50;
  };
  const end = performance.now() + most;
  while (performance.now() < end) {
    const enough = state.restless ? quiet : moment;
    if (state.open <= 0 && performance.now() - state.last >= enough && !isShell()) return;
    await state.rest(Math.min(20, enough));
  }
}
"""

# The parts that the parser or the load event still waits for. ``blocking`` may hold up the
# parser. ``is_whole`` is true once the document itself has arrived.
PENDING = """
() => {
  const plain = (url) => url.split('#')[0];
  const done = new Set(performance.getEntriesByType('resource').map((e) => plain(e.name)));
  const urls = (selector) => [...document.querySelectorAll(selector)]
    .map((e) => plain(String(e.src || e.href || e.data || '')))
    .filter((url) => url.startsWith('http') && !done.has(url)).slice(0, 1000);
  const entry = performance.getEntriesByType('navigation')[0];
  return {
    is_whole: !!entry && entry.responseEnd > 0,
    blocking: urls('script[src], link[rel~=stylesheet i]'),
    others: urls('img[src]:not([loading=lazy]), iframe[src]:not([loading=lazy]), object[data],'
      + ' embed[src], video[src], audio[src]'),
  };
}
"""

# The document as HTML, with shadow trees and known contents of frames.
_SERIAL = """
  const FRAMES = Symbol.for('scraper-frames');
  const frames = window[FRAMES];
  delete window[FRAMES];
  const lists = window[Symbol.for('scraper-lists')] || new Map();
  const words = (node) =>
    (node.textContent + (node.shadowRoot ? node.shadowRoot.textContent : '')).trim();
  // A list that shows other rows by now has changed since its rows were collected.
  for (const [list, { rows }] of lists) {
    const known = new Set([...rows.values()].map((row) => row.text));
    const live = [...list.children].filter(words);
    const others = live.filter((row) => !known.has(words(row)));
    if (!list.isConnected || others.length > live.length / 2) lists.delete(list);
    else for (const row of others) rows.set({}, { text: words(row), node: row, at: Infinity });
  }
  const inOrder = (list) => [...lists.get(list).rows.values()].sort((a, b) => a.at - b.at)
    .map((row) => row.node.cloneNode(true));
  const flat = (node, whole) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return [node.cloneNode(false)];
    if (node.localName === 'slot' && node.assignedNodes) {
      const given = node.assignedNodes({ flatten: true });
      return (given.length ? given : [...node.childNodes]).flatMap((n) => flat(n, whole));
    }
    const copy = node.cloneNode(false);
    if (node.localName === 'template') copy.innerHTML = node.innerHTML;
    if (whole)
      for (const name of ['href', 'src'])
        if (node.hasAttribute(name) && typeof node[name] === 'string')
          copy.setAttribute(name, node[name]);
    const inside = frames && frames.get(node);
    if (inside !== undefined) copy.setAttribute('srcdoc', inside);
    if (lists.has(node)) {
      const { rows, lost } = lists.get(node);
      if (lost && !node.closest('[aria-rowcount]'))
        copy.setAttribute('aria-rowcount', rows.size + lost);
      copy.append(...inOrder(node));
      return [copy];
    }
    const children = node.shadowRoot
      ? [...node.shadowRoot.childNodes].filter((n) => n.localName !== 'style')
      : [...node.childNodes];
    copy.append(...children.flatMap((n) => flat(n, whole)));
    return [copy];
  };
"""

# ``html`` is null for a larger document.
CONTENT = (
    """
(most) => {"""
    + _SERIAL
    + """
  const root = document.documentElement;
  let plain = !frames && !lists.size;
  for (const element of plain ? document.querySelectorAll('*') : [])
    if (element.shadowRoot) { plain = false; break; }
  let html;
  try {
    html = document.doctype ? `<!DOCTYPE ${document.doctype.name}>` : '';
    if (root) html += plain ? root.outerHTML : flat(root, false)[0].outerHTML;
    if (html.length > most) html = null;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    html = null;  // no string can be as long as that
  }
  const entry = performance.getEntriesByType('navigation')[0];
  return {
    html,
    type: document.contentType,
    status: (entry && entry.responseStatus) || 0,
    size: (entry && entry.decodedBodySize) || 0,
    url: location.href,
    is_parsed: document.readyState !== 'loading',
  };
}
"""
)

# A frame as HTML with absolute URLs. Null for a larger frame.
FRAME = (
    """
(most) => {"""
    + _SERIAL
    + """
  if (!document.documentElement) return '';
  const html = flat(document.documentElement, true)[0].outerHTML;
  return html.length > most ? null : html;
}
"""
)
IS_SEEN = (
    "(e) => { const b = e.getBoundingClientRect(); return b.width * b.height > 4; }"
)
# Kept beside the document, which stays as its scripts left it.
PUT_FRAME = """
(element, html) => {
  const FRAMES = Symbol.for('scraper-frames');
  (window[FRAMES] ??= new Map()).set(element, html);
}
"""

# The rules of all style sheets as CSS, up to a number of characters.
LOOKS = """
(most) => {
  const TEXT = ['color', 'background-color', 'font-family', 'font-size', 'font-weight'];
  const rows = [];
  const say = (selector, element, names) => {
    if (!element) return;
    const style = getComputedStyle(element);
    const of = (name) => `${name}:${style.getPropertyValue(name)}`;
    rows.push(`${selector}{${names.map(of).join(';')}}`);
  };
  const one = (selector) => document.querySelector(selector);
  say('body', document.body, TEXT);
  for (const tag of ['h1', 'h2', 'h3']) say(tag, one(tag), TEXT);
  say('a', one('main a, article a, p a, a'), ['color']);
  const BUTTON = [...TEXT, 'border-radius'];
  say('.button.primary', one('button[class*=primary i], a[class*=primary i][class*=b][class*=t],'
    + 'button[type=submit], a[class*=btn i], a[class*=button i], button'), BUTTON);
  say('.button.secondary', one('button[class*=secondary i], a[class*=btn i][class*=secondary i],'
    + 'a[class*=button i][class*=secondary i]'), BUTTON);
  const names = new Set();
  for (const sheet of document.styleSheets) {
    let rules = [];
    try { rules = sheet.cssRules; } catch { continue; }  // of another site
    for (const rule of [...rules].slice(0, 2000))
      if (rule.selectorText && /(^|,)\\s*(:root|html|body)\\s*(,|$)/.test(rule.selectorText))
        for (const name of rule.style) if (name.startsWith('--')) names.add(name);
  }
  if (names.size) say(':root', document.documentElement, [...names].slice(0, 300));
  let left = most;
  return rows.filter((row) => (left -= row.length + 1) >= 0).join('\\n');
}
"""

# Scrolls to the end and back, for content that loads near the viewport.
SCROLL_THROUGH = """
async (most) => {
  const end = performance.now() + most;
  const at = window.scrollY;
  for (let y = 0; y < document.documentElement.scrollHeight; y += window.innerHeight) {
    if (performance.now() > end) break;
    window.scrollTo({ top: y, behavior: 'instant' });
    await new Promise((next) => setTimeout(next, 40));
  }
  window.scrollTo({ top: at, behavior: 'instant' });
}
"""
SCROLL = "(sign) => window.scrollBy({ top: sign * innerHeight, behavior: 'instant' })"
SCROLL_ELEMENT = (
    "(e, sign) => e.scrollBy({ top: sign * e.clientHeight, behavior: 'instant' })"
)
# Chooses what is scrolled to its end: an element, or else the window and large elements that
# scroll. Returns their number. Notes the rows that lists remove or change from then on.
BEGIN_SCROLL = """
(element) => {
  const page = document.scrollingElement || document.documentElement;
  const inner = element ? [] : [...document.querySelectorAll('body *')].slice(0, 50000)
    .filter((e) => e.scrollHeight > 2 * e.clientHeight && e !== page
      && e.clientWidth * e.clientHeight > innerWidth * innerHeight / 10
      && /auto|scroll/.test(getComputedStyle(e).overflowY))
    .sort((a, b) => b.clientWidth * b.clientHeight - a.clientWidth * a.clientHeight);
  const changed = new Map();
  let left = 50000;
  const note = (list, row) => {
    if (left-- <= 0 || !list) return;
    if (!changed.has(list)) changed.set(list, new Set());
    changed.get(list).add(row);
  };
  const observer = new MutationObserver((records) => {
    for (const { target, type, removedNodes } of records) {
      let hasText = type === 'characterData';
      for (const node of removedNodes)
        if (node.nodeType !== Node.ELEMENT_NODE) hasText = true;
        else if (node.textContent.trim() || node.shadowRoot) note(target, node);
      // A row that is used again gets other text.
      for (let e = target, n = 0; hasText && e && n < 8; e = e.parentElement, n++)
        if (e.nodeType === Node.ELEMENT_NODE) note(e.parentElement, e);
    }
  });
  observer.observe(document, { subtree: true, childList: true, characterData: true });
  const scrolls = element ? [element] : [page, ...inner.slice(0, 2)];
  window[Symbol.for('scraper-scrolls')] = { scrolls, changed, observer };
  return scrolls.length;
}
"""
# Scrolls one of these to its end, and returns its height.
SCROLL_TO_END = """
(number) => {
  const state = window[Symbol.for('scraper-scrolls')];
  const page = document.scrollingElement || document.documentElement;
  const target = (state && state.scrolls[number]) || page;
  target.scrollTo({ top: target.scrollHeight, behavior: 'instant' });
  return target.scrollHeight;
}
"""
# Collects the rows of lists that keep only the visible ones: scrolls one of these from its
# start, by less than what is visible. Returns false if time was up. The rows stay beside the
# document, which stays as its scripts left it.
COLLECT_ROWS = (
    """
async ([number, most]) => {"""
    + _SERIAL
    + """
  const state = window[Symbol.for('scraper-scrolls')];
  const watch = window[Symbol.for('scraper-watch')];
  const target = state && state.scrolls[number];
  if (!target || !watch) return true;
  const isPage = target === (document.scrollingElement || document.documentElement);
  const found = [...state.changed].map(([list, rows]) => [list, rows.size])
    .filter(([list, size]) => size > 2 && list.isConnected && target.contains(list)
      && list !== document.documentElement)
    .sort((a, b) => b[1] - a[1]);
  state.changed.clear();
  if (number === state.scrolls.length - 1) state.observer.disconnect();
  const chosen = [];
  for (const [list, size] of found)
    if (chosen.length < 4 && 2 * size >= found[0][1]
        && !chosen.some((other) => other.contains(list) || list.contains(other)))
      chosen.push(list);
  if (!chosen.length) return true;
  const INDEXES = ['aria-rowindex', 'aria-posinset', 'data-index', 'data-row-index', 'row-index',
    'data-item-index', 'data-rowindex'];
  const all = new Map(chosen.map((list) => [list, { rows: new Map(), lost: 0, name: '' }]));
  const seen = new WeakMap();
  let top = 0;
  const read = () => {
    top = isPage ? -scrollY : target.getBoundingClientRect().top - target.scrollTop;
    for (const [list, kept] of all)
      for (const row of list.children) {
        const text = words(row);
        if (!text || kept.rows.size >= 100000) continue;
        kept.name ||= INDEXES.find((name) => row.hasAttribute(name)) || 'top';
        const box = row.getBoundingClientRect();
        const index = kept.name === 'top' ? NaN : parseInt(row.getAttribute(kept.name), 10);
        const at = index >= 0 ? index : Math.round(box.top - top) + box.left / 1e6;
        // The same row, or one that stays in view, such as a header.
        if (!(index >= 0) && seen.get(row) === text) continue;
        seen.set(row, text);
        kept.rows.set(at, { text, at, node: flat(row, false)[0] });
      }
  };
  const end = performance.now() + most;
  // Scripts hear of a scroll with the next frame, and often draw with the one after it.
  const frame = () =>
    Promise.race([new Promise((next) => requestAnimationFrame(next)), watch.rest(500)]);
  const quiet = async () => {
    for (let n = 0; n < 3; n++) await frame();
    const latest = Math.min(end, performance.now() + 1000);
    while (performance.now() < latest && (watch.open > 0 || performance.now() - watch.last < 40))
      await watch.rest(15);
  };
  target.scrollTo({ top: 0, behavior: 'instant' });
  await quiet();
  read();
  let isWhole = false;
  while (performance.now() < end) {
    const before = target.scrollTop;
    const height = isPage ? innerHeight : target.clientHeight;
    target.scrollBy({ top: Math.max(1, 0.9 * height), behavior: 'instant' });
    isWhole = target.scrollTop <= before;
    if (isWhole) break;
    await quiet();
    read();
  }
  for (const [list, kept] of all) {
    const live = [...list.children].filter(words);
    if (live.length >= kept.rows.size) { all.delete(list); continue; }
    const heights = live.reduce((sum, row) => sum + row.getBoundingClientRect().height, 0);
    const below = target.scrollHeight - target.scrollTop
      - (isPage ? innerHeight : target.clientHeight);
    if (!isWhole && heights) kept.lost = Math.round(below * live.length / heights);
    const places = [...kept.rows.keys()];
    if (kept.name !== 'top' && places.length)
      kept.lost += Math.max(0, places.reduce((a, b) => Math.max(a, b))
        - places.reduce((a, b) => Math.min(a, b)) + 1 - places.length);
  }
  const known = (window[Symbol.for('scraper-lists')] ??= new Map());
  for (const [list, kept] of all) known.set(list, kept);
  return isWhole || !all.size;
}
"""
)
# Waits for fonts, or a time-out. Returns True once all are there.
FONTS = """
(most) => Promise.race([
  document.fonts.ready.then(() => true),
  new Promise((next) => setTimeout(() => next(document.fonts.status === 'loaded'), most)),
])
"""
HEIGHT = "() => Math.max(document.documentElement.scrollHeight, innerHeight)"

# Accepts cookies in a banner, or removes the banner. Returns True after a click. Reads
# styles only, since a layout takes as long as loading the page.
CONSENT = """
() => {
  const ACCEPT = [
    '#onetrust-accept-btn-handler', '#CybotCookiebotDialogBodyLevelButtonLevelOptinAllowAll',
    '#CybotCookiebotDialogBodyButtonAccept', '#didomi-notice-agree-button',
    '.qc-cmp2-summary-buttons button[mode=primary]', '#truste-consent-button',
    '.fc-cta-consent', '.cc-allow', '.cc-dismiss', '#cookie-accept', '#accept-cookies',
    '[data-testid=uc-accept-all-button]', '.osano-cm-accept-all', '#hs-eu-confirmation-button',
    '.cky-btn-accept', '.cmplz-accept', '#wt-cli-accept-all-btn', '.iubenda-cs-accept-btn',
    '.cookie-consent-accept', '[data-cookie-accept]', '.js-accept-cookies',
  ];
  const BANNERS = '[id*=cookie i], [class*=cookie i], [id*=consent i], [class*=consent i],'
    + '[id*=gdpr i], [class*=gdpr i], [aria-label*=cookie i], #CybotCookiebotDialog,'
    + '#onetrust-consent-sdk, #didomi-host, .qc-cmp2-container, #usercentrics-root';
  const YES = /^(accept|allow|agree|got it|ok|i agree|alle akzeptieren|akzeptieren|zustimmen|tout accepter|accepter|aceptar|accetta|accetto|aceitar|akkoord)( (all|and close|cookies|all cookies))?[.!]?$/i;
  const seen = (e) => e.checkVisibility();
  const floats = (e) => ['fixed', 'sticky'].includes(getComputedStyle(e).position)
    || e.matches('dialog[open], [role=dialog], [aria-modal=true]');
  for (const selector of ACCEPT) {
    const button = document.querySelector(selector);
    if (button && seen(button)) { button.click(); return true; }
  }
  let clicked = false;
  for (const banner of document.querySelectorAll(BANNERS)) {
    if (banner === document.body || banner === document.documentElement) continue;
    if (!seen(banner) || !floats(banner)) continue;
    const buttons = banner.querySelectorAll('button, a[role=button], input[type=button], input[type=submit], a');
    const yes = [...buttons].find((b) => YES.test((b.textContent || b.value || '').trim()));
    if (yes) { yes.click(); clicked = true; }
    banner.style.setProperty('display', 'none', 'important');
  }
  return clicked;
}
"""
