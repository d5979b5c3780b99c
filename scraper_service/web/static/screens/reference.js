// The interface, read out of its OpenAPI document.
import { useState } from "../libraries/hooks.js";
import { description } from "../http.js";
import { Failure, html, useLoaded } from "../ui.js";
import { control, forms, members, range, resolved } from "../schema.js";

export function Reference() {
  const [document, error, again] = useLoaded(description, []);
  const [filter, setFilter] = useState("");
  if (!document)
    return html`<h1>Reference</h1>
      <${Failure} error=${error} retry=${again} />`;
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => /^(get|post|put|patch|delete)$/.test(method))
      .map(([method, facts]) => ({ path, method: method.toUpperCase(), facts })),
  );
  const words = filter.toLowerCase();
  const found = routes.filter(({ path, method, facts }) =>
    `${method} ${path} ${facts.summary || ""}`.toLowerCase().includes(words),
  );
  return html`<h1>Reference</h1>
    <p class="quiet">
      Every route of this service. The same as a document for programs: <a href="/openapi.json">openapi.json</a>.
    </p>
    <input
      type="search"
      aria-label="Find a route"
      placeholder="Find a route"
      value=${filter}
      onInput=${(event) => setFilter(event.target.value)}
    />
    ${found.map(
      (route) => html`<${Route} key=${`${route.method} ${route.path}`} document=${document} ...${route} />`,
    )}`;
}

function Route({ document, path, method, facts }) {
  const [open, set] = useState(false);
  return html`<details class="card route" onToggle=${(event) => set(event.currentTarget.open)}>
    <summary>
      <span class="tag method ${method.toLowerCase()}">${method}</span> <code>${path}</code>${" "}<span class="quiet"
        >${facts.summary || ""}</span
      >
      ${facts["x-own"] && html` <span class="tag">addition</span>`}${
        facts["x-available"] === false && html` <span class="tag bad">not available here</span>`
      }
    </summary>
    ${open && html`<${Details} document=${document} facts=${facts} />`}
  </details>`;
}

function Details({ document, facts }) {
  const body = Object.values(facts.requestBody?.content || {})[0];
  const parameters = (facts.parameters || []).map((each) => resolved(document, each));
  const answers = Object.entries(facts.responses || {}).map(([status, each]) => [status, resolved(document, each)]);
  const [good] = answers.filter(([status]) => status.startsWith("2"));
  const shape = good && forms(document, resolved(document, Object.values(good[1].content || {})[0]?.schema))[0];
  return html`${facts.description && html`<p>${facts.description}</p>`}
    ${
      parameters.length > 0 &&
      html`<h3>Parameters</h3>
        <${Options}
          document=${document}
          options=${parameters.map((each) => ({
            name: each.name,
            required: each.required,
            schema: { description: each.description, ...resolved(document, each.schema) },
          }))}
        />`
    }
    ${
      body &&
      html`<h3>Body</h3>
        <${Options} document=${document} options=${members(document, resolved(document, body.schema))} />`
    }
    ${
      shape &&
      html`<h3>Answer</h3>
        <${Options} document=${document} options=${members(document, shape)} />`
    }
    <h3>Statuses</h3>
    <table class="facts">
      <tbody>
        ${answers.map(
          ([status, each]) =>
            html`<tr key=${status}>
              <th scope="row">${status}</th>
              <td>${each.description}</td>
            </tr>`,
        )}
      </tbody>
    </table>`;
}

function Options({ document, options }) {
  return html`<div class="scroll" tabindex="0">
    <table class="list">
      <thead>
        <tr>
          <th>Name</th>
          <th>Values</th>
          <th>Meaning</th>
        </tr>
      </thead>
      <tbody>
        ${options.map(({ name, schema, required }) => {
          const { kind, choices, schema: own } = control(document, schema);
          return html`<tr key=${name}>
            <td><code>${name}</code>${required && html`<span class="required"> *</span>`}</td>
            <td>
              ${
                choices
                  ? choices.join(", ")
                  : {
                      lines: "array of texts",
                      list: "array of objects",
                      group: "object",
                      json: "JSON",
                      several: "array",
                      string: "text",
                    }[kind] || kind
              }${" "}<span class="quiet">${range({ ...own, ...schema })}</span>
            </td>
            <td>${schema.description || ""}</td>
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}
