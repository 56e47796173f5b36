// Asking the server, and hearing from it.

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
let source = null;
let wasLost = false;

/** Calls `hear` with the data of every event of this name, until the returned function is called. */
export function listen(name, hear) {
  if (!listeners.has(name)) {
    listeners.set(name, new Set());
    source?.addEventListener(name, deliver);
  }
  listeners.get(name).add(hear);
  return () => listeners.get(name).delete(hear);
}

/** Calls `hear` with "connected" or "lost". */
export function onConnection(hear) {
  statuses.add(hear);
}

function deliver(event) {
  const data = event.data ? JSON.parse(event.data) : null;
  for (const hear of [...(listeners.get(event.type) ?? [])]) hear(data);
}

/** Says that something may have been missed. */
function resync() {
  for (const hear of [...(listeners.get("resync") ?? [])]) hear(null);
}

// A page that nobody sees hangs up after a while, and asks for what it has missed when it is seen again.
const UNSEEN = 10000;
let unseen = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) {
    unseen = setTimeout(() => {
      source?.close();
      source = null;
    }, UNSEEN);
  } else if (!source || source.readyState === EventSource.CLOSED) {
    wasLost = true;
    connect();
  }
});

/** Connects, and connects again whenever the connection is lost. */
export function connect() {
  source = new EventSource("/api/events");
  for (const name of listeners.keys()) source.addEventListener(name, deliver);
  source.addEventListener("hello", () => {
    for (const hear of statuses) hear("connected");
    // What was missed meanwhile must be asked for.
    if (wasLost) resync();
    wasLost = false;
  });
  source.addEventListener("error", () => {
    wasLost = true;
    for (const hear of statuses) hear("lost");
    // A browser gives up on an answer that is not a stream, such as one of a proxy.
    if (source?.readyState === EventSource.CLOSED) setTimeout(() => !document.hidden && connect(), 1000);
  });
}
