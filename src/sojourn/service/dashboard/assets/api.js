// The service's API: JSON, a token if one is asked for, and errors that say what to do.

const TOKEN = "sojourn-token";
const PATIENCE_MS = 5000;

export class Refused extends Error {
  constructor(status, error) {
    super(error.message ?? `the service answered ${status}`);
    this.status = status;
    this.code = error.code;
    this.advice = error.do;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => sessionStorage.setItem(TOKEN, text),
  clear: () => sessionStorage.removeItem(TOKEN),
};

// Offsets have 64 bits, numbers of this language 53: larger ones are kept as BigInt.
function exact(_, value, context) {
  const isLarge = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isLarge && /^-?[0-9]+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}

async function call(method, path, body) {
  const headers = { accept: "application/json" };
  const mine = token.get();
  if (mine) headers.authorization = `Bearer ${mine}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method, headers, body, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = await answer.text();
  let value;
  try {
    value = JSON.parse(text, exact);
  } catch {
    throw new Refused(answer.status, { message: `the service answered ${answer.status} and no JSON` });
  }
  if (!answer.ok) throw new Refused(answer.status, value.error ?? {});
  return value;
}

const part = (text) => encodeURIComponent(text.toWellFormed?.() ?? text);

async function orNone(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

export const state = () => call("GET", "/v1/state");
export const operation = (id) => orNone(call("GET", `/v1/operations/${part(id)}`));
export const key = (name) => orNone(call("GET", `/v1/keys/${part(name)}`));
export const waitingOn = (name, limit) => call("GET", `/v1/operations?key=${part(name)}&limit=${limit}`);
export const cancel = (id) => call("POST", "/v1/cancels", JSON.stringify({ id }));
/** `offset` is a BigInt, which JSON.stringify does not take. */
export const signal = (name, offset) =>
  call("POST", "/v1/signals", `{"key":${JSON.stringify(name)},"offset":${offset}}`);
