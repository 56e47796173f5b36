// Asking the server, and hearing from it.

import { stream } from "./stream.js";

/** What the server said, or an Error with `setting` and `kind`. */
async function answered(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error(`the server answered with status ${response.status}`);
  }
  // What was typed may be wrong: that is an answer, not a failed request.
  const wrong = response.ok ? body.problem : (body.error ?? {});
  if (wrong) {
    const error = new Error(wrong.message ?? `status ${response.status}`);
    error.setting = wrong.setting ?? null;
    error.kind = wrong.kind ?? null;
    throw error;
  }
  return body;
}

/** GET of an address with parameters; those that are null or undefined are left out. */
export async function ask(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return answered(await fetch(query ? `${path}?${query}` : path, { signal }));
}

/** POST of JSON. */
export async function tell(path, body) {
  return answered(await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }));
}

const listeners = new Map();
const statuses = new Set();
// Ends listening, while this page listens.
let leave = null;
let wasLost = false;

/** Calls `hear` with the data of every event of this name, until the returned function is called. */
export function listen(name, hear) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(hear);
  return () => listeners.get(name).delete(hear);
}

/** Calls `hear` with "connected", "lost", or "refused" by a server that wants another token. */
export function onConnection(hear) {
  statuses.add(hear);
}

function heard(name, data) {
  if (data === undefined) {
    if (name !== "connected") wasLost = true;
    for (const hear of statuses) hear(name);
    if (name !== "connected") return;
    // What was missed meanwhile must be asked for.
    if (wasLost) deliver("resync", null);
    wasLost = false;
  } else if (listeners.get(name)?.size) {
    deliver(name, JSON.parse(data));
  }
}

function deliver(name, data) {
  for (const hear of [...(listeners.get(name) ?? [])]) hear(data);
}

/** Listens to the stream that all tabs share, or to one of its own where a browser has no shared workers. */
function join() {
  if (leave) return;
  const own = () => {
    leave = stream(heard);
  };
  if (!globalThis.SharedWorker) {
    own();
    return;
  }
  const worker = new SharedWorker("/shared.js", { type: "module" });
  worker.onerror = () => {
    worker.port.onmessage = null;
    if (leave) own();
  };
  worker.port.onmessage = ({ data: [name, data] }) => heard(name, data);
  worker.port.postMessage("join");
  leave = () => {
    worker.port.postMessage("leave");
    worker.port.close();
  };
}

function hangUp() {
  leave?.();
  leave = null;
  wasLost = true;
}

// A page that nobody sees hangs up after a while, and asks for what it has missed when it is seen again.
const UNSEEN = 10000;
let unseen = null;

function look() {
  clearTimeout(unseen);
  if (document.hidden) unseen = setTimeout(hangUp, leave ? UNSEEN : 0);
  else join();
}
document.addEventListener("visibilitychange", look);
addEventListener("pagehide", hangUp);
addEventListener("pageshow", (event) => event.persisted && look());

/** Begins to listen, if this page is seen. Whoever waits for it misses nothing of what happens after its first questions. */
export function connect() {
  return new Promise((resolve) => {
    statuses.add(resolve);
    setTimeout(resolve, document.hidden ? 0 : 1000);
    look();
  });
}
