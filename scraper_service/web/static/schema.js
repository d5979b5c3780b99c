// Reads what the forms need out of the OpenAPI document.

export function resolved(document, schema) {
  let found = schema || {};
  while (found.$ref) {
    const target = found.$ref
      .slice(2)
      .split("/")
      .reduce((value, key) => value?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], document);
    const { $ref: _, ...own } = found;
    found = { ...target, ...own };
  }
  return found;
}

// The options of a route as [{name, schema, required}].
export function optionsOf(document, path) {
  const body = document.paths[path]?.post?.requestBody?.content || {};
  const schema = resolved(document, (body["application/json"] || body["multipart/form-data"] || {}).schema);
  return members(document, schema);
}

export function members(document, schema) {
  const parts = (schema.allOf || []).map((part) => resolved(document, part));
  const all = Object.assign({}, ...parts.map((part) => part.properties), schema.properties);
  const required = new Set([...(schema.required || []), ...parts.flatMap((part) => part.required || [])]);
  return Object.entries(all).map(([name, own]) => ({
    name,
    schema: resolved(document, own),
    required: required.has(name),
  }));
}

// The forms of a value, without null.
export function forms(document, schema) {
  const found = (schema.oneOf || schema.anyOf || [schema]).map((each) => resolved(document, each));
  return found
    .flatMap((each) => (each.oneOf || each.anyOf ? forms(document, each) : [each]))
    .filter((each) => each.type !== "null");
}

const typeOf = (schema) => (Array.isArray(schema.type) ? schema.type.find((type) => type !== "null") : schema.type);

// How a form asks for a value: {kind, choices, schema}. JSON may be a text without quotes
// if isText is true. Of "several" choices, those in `objects` are objects with this schema,
// unless `alone` has their name; a single one needs no array if isOneToo is true.
export function control(document, schema) {
  const all = forms(document, schema);
  const first = { ...all[0], type: typeOf(all[0] || {}) };
  const words = all.flatMap((each) => each.enum || (each.const !== undefined ? [each.const] : []));
  if (words.length && all.every((each) => each.enum || each.const !== undefined))
    return { kind: "choice", choices: words, schema: first };
  if (all.length === 2 && words.length && typeOf(all[1]) === "array")
    return { ...control(document, all[1]), isOneToo: true };
  if (all.length === 1 && ["boolean", "integer", "number", "string"].includes(first.type))
    return { kind: first.type, schema: first };
  if (all.length === 1 && first.type === "array") {
    const items = forms(document, resolved(document, first.items || {}));
    const alone = items
      .flatMap((each) => each.enum || (typeof each.const === "string" ? [each.const] : []))
      .filter((name) => typeof name === "string");
    const objects = Object.fromEntries(
      items.filter((each) => each.properties?.type?.const).map((each) => [each.properties.type.const, each]),
    );
    if (alone.length)
      return {
        kind: "several",
        choices: [...new Set([...alone, ...Object.keys(objects)])],
        alone,
        objects,
        schema: first,
      };
    if (items.length === 1 && items[0].properties) return { kind: "list", item: items[0], schema: first };
    if (items.every((each) => typeOf(each) === "string")) return { kind: "lines", schema: first };
  }
  if (all.length === 1 && first.type === "object" && first.properties) return { kind: "group", schema: first };
  if (all.every((each) => ["string", "integer", "number"].includes(typeOf(each))))
    return { kind: "string", schema: first };
  return {
    kind: "json",
    schema: all.length === 1 ? first : { ...first, type: undefined },
    isText: all.some((each) => typeOf(each) === "string" && !each.enum),
  };
}

// Why a value is not allowed, or undefined.
export function fault(kind, schema, value) {
  if (value === undefined) return undefined;
  if (kind === "integer" && !Number.isInteger(value)) return "a whole number is expected";
  if ((kind === "integer" || kind === "number") && typeof value !== "number") return "a number is expected";
  if (kind === "json" && schema.type === "array" && !Array.isArray(value)) return "an array is expected: [ … ]";
  if (kind === "json" && schema.type === "object" && (typeof value !== "object" || Array.isArray(value)))
    return "an object is expected: { … }";
  const above = schema.exclusiveMinimum;
  if (above !== undefined && !(value > above)) return `more than ${above} is expected`;
  if (schema.minimum !== undefined && value < schema.minimum) return `at least ${schema.minimum} is expected`;
  if (schema.maximum !== undefined && value > schema.maximum) return `at most ${schema.maximum} is allowed`;
  if (schema.maxLength !== undefined && typeof value === "string" && value.length > schema.maxLength)
    return `at most ${schema.maxLength} characters are allowed`;
  if (schema.maxItems !== undefined && Array.isArray(value) && value.length > schema.maxItems)
    return `at most ${schema.maxItems} are allowed`;
  return undefined;
}

// A sentence on the values that an option may have.
export function range(schema) {
  const parts = [];
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const most = schema.maximum < Number.MAX_SAFE_INTEGER ? schema.maximum : undefined;
  const above = schema.minimum === undefined ? "more than" : "at least";
  if (least !== undefined && most !== undefined)
    parts.push(`${schema.minimum === undefined ? "more than " : ""}${least} to ${most}`);
  else if (least !== undefined && least !== 0) parts.push(`${above} ${least}`);
  else if (most !== undefined) parts.push(`at most ${most}`);
  if (schema.default !== undefined && schema.default !== null && String(schema.default) !== "")
    parts.push(`default ${typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default)}`);
  return parts.join("; ");
}
