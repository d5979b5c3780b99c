// What has changed on a page: by line and word, in one column or side by side.
import { useState } from "./libraries/hooks.js";
import { signal } from "./libraries/signals.js";
import { html, number } from "./ui.js";

const ROWS = 400; // shown at first, and with each click on "more"
const CELLS = 40000; // of a table that compares words; longer lines are marked as a whole
const PAIRS = 900; // of lines in one change that are compared with each other
const LIKE = 0.25; // of lines that are versions of each other

const view = signal(innerWidth > 900 ? "split" : "unified");

// The lines of a unified diff as rows: {kind: "gap" | "same" | "change", before, after}. A side
// that has no such line is undefined.
export function diffRows(text) {
  const rows = [];
  let before = [],
    after = [];
  const end = () => {
    rows.push(
      ...paired(before, after).map(([old, now]) => ({
        kind: old === now ? "same" : "change",
        before: old,
        after: now,
      })),
    );
    [before, after] = [[], []];
  };
  for (const line of text.split("\n").slice(2)) {
    if (line[0] === "\\") continue; // no line break at the end of the text
    const sign = line[0],
      rest = line.slice(1);
    if (sign === "-") before.push(rest);
    else if (sign === "+") after.push(rest);
    else {
      end();
      if (sign === "@") rows.push({ kind: "gap" });
      else if (sign === " ") rows.push({ kind: "same", before: rest, after: rest });
    }
  }
  end();
  return rows[0]?.kind === "gap" ? rows.slice(1) : rows;
}

const wordsOf = (line) => line.match(/[\p{L}\p{N}_]+|\s+|./gu) || [];

// How much two lines have in common, from 0 to 1.
function likeness(first, second) {
  const counts = new Map();
  for (const word of first) counts.set(word, (counts.get(word) || 0) + 1);
  let common = 0;
  for (const word of second) {
    if (counts.get(word) > 0 && word.trim()) common += word.length;
    counts.set(word, (counts.get(word) || 0) - 1);
  }
  const size = (words) => words.reduce((sum, word) => sum + (word.trim() ? word.length : 0), 0);
  return common / Math.max(1, size(first), size(second));
}

// Lines of both sides that are versions of each other stand in one row.
function paired(before, after) {
  const rows = Math.max(before.length, after.length);
  if (before.length === after.length || !before.length || !after.length || before.length * after.length > PAIRS)
    return Array.from({ length: rows }, (_, at) => [before[at], after[at]]);
  const olds = before.map(wordsOf),
    news = after.map(wordsOf);
  const best = table(olds.length, news.length, (i, j) => Math.max(0, likeness(olds[i], news[j]) - LIKE));
  const found = [];
  let i = 0,
    j = 0;
  while (i < olds.length || j < news.length) {
    if (j === news.length || (i < olds.length && best[i][j] === best[i + 1][j])) found.push([before[i++], undefined]);
    else if (i === olds.length || best[i][j] === best[i][j + 1]) found.push([undefined, after[j++]]);
    else found.push([before[i++], after[j++]]);
  }
  return found;
}

// The best sums of `score` over pairs in order, of the rests from i and j on.
function table(rows, columns, score) {
  const best = Array.from({ length: rows + 1 }, () => new Float64Array(columns + 1));
  for (let i = rows - 1; i >= 0; i--)
    for (let j = columns - 1; j >= 0; j--)
      best[i][j] = Math.max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + score(i, j));
  return best;
}

// Two lines as parts [text, is it in this line only].
export function diffWords(before, after) {
  const olds = wordsOf(before),
    news = wordsOf(after);
  let start = 0,
    end = 0;
  while (start < Math.min(olds.length, news.length) && olds[start] === news[start]) start++;
  while (end < Math.min(olds.length, news.length) - start && olds.at(-1 - end) === news.at(-1 - end)) end++;
  const first = olds.slice(start, olds.length - end),
    second = news.slice(start, news.length - end);
  const left = [],
    right = [];
  const put = (to, text, isOwn) => (to.at(-1)?.[1] === isOwn ? (to.at(-1)[0] += text) : text && to.push([text, isOwn]));
  const both = (words) =>
    words.forEach((word) => {
      put(left, word, false);
      put(right, word, false);
    });
  both(olds.slice(0, start));
  if (first.length * second.length > CELLS) {
    put(left, first.join(""), true);
    put(right, second.join(""), true);
  } else {
    const best = table(first.length, second.length, (i, j) =>
      first[i] === second[j] ? (first[i].trim() ? first[i].length : 0.1) : 0,
    );
    let i = 0,
      j = 0;
    while (i < first.length || j < second.length) {
      if (
        i < first.length &&
        j < second.length &&
        first[i] === second[j] &&
        best[i][j] > Math.max(best[i + 1][j], best[i][j + 1])
      ) {
        both([first[i++]]);
        j++;
      } else if (j === second.length || (i < first.length && best[i + 1][j] >= best[i][j + 1]))
        put(left, first[i++], true);
      else put(right, second[j++], true);
    }
  }
  both(olds.slice(olds.length - end));
  return [joined(left), joined(right)];
}

// Spaces between two changed words belong to the change.
function joined(parts) {
  const found = [];
  parts.forEach(([text, isOwn], at) => {
    const isBetween = !text.trim() && found.at(-1)?.[1] && parts[at + 1]?.[1];
    if ((isOwn || isBetween) && found.at(-1)?.[1]) found.at(-1)[0] += text;
    else found.push([text, isOwn]);
  });
  return found;
}

export function Diff({ diff }) {
  const fields = diff.json && !Array.isArray(diff.json.files) ? Object.entries(diff.json) : [];
  return html`${fields.length > 0 && html`<${FieldDiff} fields=${fields} />`}
  ${diff.text && html`<${TextDiff} text=${diff.text} />`}
  ${diff.truncated && html`<p class="quiet">The diff is longer than the service stores; its end is left out.</p>`}`;
}

function TextDiff({ text }) {
  const [most, more] = useState(ROWS);
  const [rows] = useState(() => diffRows(text));
  const isSplit = view.value === "split";
  const choose = (name, label) =>
    html`<button type="button" class="small" aria-pressed=${view.value === name} onClick=${() => (view.value = name)}>
      ${label}
    </button>`;
  return html`<div class="bar" role="group" aria-label="Form of the diff">
      ${choose("unified", "One column")}${choose("split", "Side by side")}
    </div>
    <table class="diff ${isSplit ? "sides" : ""}" aria-label="Diff">
      ${
        isSplit &&
        html`<thead>
          <tr>
            <th>Before</th>
            <th>Now</th>
          </tr>
        </thead>`
      }
      <tbody>
        ${rows.slice(0, most).map((row, at) => html`<${isSplit ? SplitRow : UnifiedRow} key=${at} row=${row} />`)}
      </tbody>
    </table>
    ${
      rows.length > most &&
      html`<p>
        <button type="button" onClick=${() => more(most + ROWS)}>More lines</button>${" "}<span class="quiet"
          >${number(most)} of ${number(rows.length)} are shown.</span
        >
      </p>`
    }`;
}

const marked = (parts, tag) => parts.map(([text, isOwn]) => (isOwn ? html`<${tag}>${text}<//>` : text));

// The two sides of a row, with marks at the words of only one of them.
function sides({ before, after }) {
  const isOther = before === undefined || after === undefined || likeness(wordsOf(before), wordsOf(after)) < LIKE;
  if (isOther) return [before, after];
  const [left, right] = diffWords(before, after);
  return [marked(left, "del"), marked(right, "ins")];
}

function SplitRow({ row }) {
  if (row.kind === "gap")
    return html`<tr class="gap">
      <td colspan="2">⋯</td>
    </tr>`;
  if (row.kind === "same")
    return html`<tr>
      <td>${row.before}</td>
      <td>${row.after}</td>
    </tr>`;
  const [old, now] = sides(row);
  return html`<tr>
    <td class=${old === undefined ? "" : "del"}>${old}</td>
    <td class=${now === undefined ? "" : "ins"}>${now}</td>
  </tr>`;
}

function UnifiedRow({ row }) {
  if (row.kind === "gap")
    return html`<tr class="gap">
      <td>⋯</td>
    </tr>`;
  if (row.kind === "same")
    return html`<tr>
      <td>${row.before}</td>
    </tr>`;
  const [old, now] = sides(row);
  return html`${
    old !== undefined &&
    html`<tr>
      <td class="del">${old}</td>
    </tr>`
  }${
    now !== undefined &&
    html`<tr>
      <td class="ins">${now}</td>
    </tr>`
  }`;
}

function FieldDiff({ fields }) {
  const text = (value) =>
    value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return html`<div class="scroll" tabindex="0">
    <table class="list fields">
      <thead>
        <tr>
          <th>Field</th>
          <th>Before</th>
          <th>Now</th>
        </tr>
      </thead>
      <tbody>
        ${fields.map(([name, value]) => {
          const [old, now] = sides({ before: text(value?.previous), after: text(value?.current) });
          return html`<tr key=${name}>
            <th scope="row"><code>${name}</code></th>
            <td class="del">${old}</td>
            <td class="ins">${now}</td>
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}
