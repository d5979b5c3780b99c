// The frame of the page: navigation, signing in, and the screen of the address.
import { render } from "./libraries/preact.js";
import { useEffect, useState } from "./libraries/hooks.js";
import { readSession, session, signIn, signOut } from "./http.js";
import { Failure, Notice, html, place } from "./ui.js";
import { Job } from "./screens/job.js";
import { Jobs } from "./screens/jobs.js";
import { MonitorForm } from "./screens/monitor_form.js";
import { Monitor, Monitors } from "./screens/monitors.js";
import { Playground } from "./screens/playground.js";
import { Reference } from "./screens/reference.js";
import { Health, Usage } from "./screens/service.js";

const SCREENS = [
  ["play", "Playground"],
  ["jobs", "Jobs"],
  ["monitors", "Monitors"],
  ["usage", "Usage"],
  ["health", "Health"],
  ["reference", "Reference"],
];

function App() {
  const [error, fail] = useState();
  const begin = async () => {
    fail(undefined);
    const link = new URLSearchParams(location.hash.slice(1)).get("sign-in");
    if (link) history.replaceState(null, "", "#/play");
    try {
      await readSession();
      if (link) await signIn({ link }); // also if signed in: a link works once
    } catch (failed) {
      fail(failed);
    }
  };
  useEffect(() => {
    begin();
  }, []);
  const { path } = place.value;
  const name = path[0] || "play";
  const known = session.value;
  useEffect(() => {
    document.title = `${SCREENS.find(([each]) => each === name)?.[1] || "Scraper service"} · Scraper service`;
  }, [name]);
  return html`<a
      class="skip"
      href="#main"
      onClick=${(event) => {
        event.preventDefault();
        document.getElementById("main").focus();
      }}
      >To the content</a
    >
    <header>
      <a class="brand" href="#/play">Scraper service</a>
      <nav aria-label="Screens">
        ${SCREENS.map(
          ([each, label]) =>
            html`<a key=${each} href=${`#/${each}`} aria-current=${each === name ? "page" : undefined}>${label}</a>`,
        )}
      </nav>
      ${
        known?.needsKey &&
        known.signedIn &&
        html`<button type="button" class="small" onClick=${() => signOut().catch(fail)}>Sign out</button>`
      }
    </header>
    <main id="main" tabindex="-1">
      <${Failure} error=${error} retry=${begin} />
      ${known && !known.signedIn && html`<${SignIn} />`}
      ${known?.signedIn && html`<${Screen} name=${name} path=${path} />`}
    </main>`;
}

function Screen({ name, path }) {
  if (name === "jobs") return path[1] ? html`<${Job} key=${path[1]} id=${path[1]} />` : html`<${Jobs} />`;
  if (name === "monitors" && (path[1] === "new" || path[2] === "edit"))
    return html`<${MonitorForm} key=${path[1]} id=${path[1] === "new" ? undefined : path[1]} />`;
  if (name === "monitors") return path[1] ? html`<${Monitor} key=${path[1]} id=${path[1]} />` : html`<${Monitors} />`;
  if (name === "usage") return html`<${Usage} />`;
  if (name === "health") return html`<${Health} />`;
  if (name === "reference") return html`<${Reference} />`;
  return html`<${Playground} />`;
}

function SignIn() {
  const [key, setKey] = useState("");
  const [error, fail] = useState();
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signIn({ key: key.trim() });
    } catch (failed) {
      if (failed.status === 401)
        failed.message =
          "The service does not know this key. Look whether it was copied as a whole; " +
          "it may also have been revoked, or have expired.";
      fail(failed);
    }
  };
  return html`<form class="card sign-in" onSubmit=${submit}>
    <h1>Sign in</h1>
    ${
      session.value.wasSignedIn &&
      html`<${Notice} kind="warning">Your session is over. Sign in again: what you typed is still there.<//>`
    }
    <p>Enter an API key of this service once. It is exchanged for a cookie, which lasts 12 hours.</p>
    <div class="field">
      <label for="key">API key</label
      ><input
        id="key"
        type="password"
        autocomplete="current-password"
        value=${key}
        onInput=${(event) => setKey(event.target.value)}
        autofocus
      />
    </div>
    <${Failure} error=${error} />
    <button class="primary" disabled=${!key.trim()}>Sign in</button>
    <p class="quiet">No key? On the machine of the service: <code>scraper-service keys create</code></p>
  </form>`;
}

if (location.pathname === "/docs" && !location.hash) location.hash = "/reference";
render(html`<${App} />`, document.getElementById("app"));
