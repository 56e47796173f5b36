// The frame of the page: which view is shown is in the address, so it can be shared and reloaded.

import { connect, onConnection } from "./ask.js";
import { fill, make, problem } from "./make.js";
import * as corpus from "./corpus.js";
import * as models from "./models.js";
import * as runs from "./runs.js";
import * as audit from "./audit.js";
import * as shapes from "./shapes.js";

const views = [
  ["corpus", "Corpus", corpus],
  ["models", "Models", models],
  ["runs", "Runs", runs],
  ["audit", "Audit", audit],
  ["shapes", "What fits?", shapes],
];

let leave = () => {};
let shown = null;

/** The view and its parameters in the address: #/corpus?text=Once. */
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const name = views.some(([key]) => key === path) ? path : "corpus";
  return { name, parameters: new URLSearchParams(query) };
}

/** Changes parameters in the address; the view sees them, and the browser's history keeps the state before unless `quiet`. */
export function go(name, parameters, quiet = false) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  const hash = `#/${name}${query ? `?${query}` : ""}`;
  if (hash === location.hash) return;
  if (quiet) history.replaceState(null, "", hash);
  else location.hash = hash;
}

function show() {
  const { name, parameters } = address();
  const view = views.find(([key]) => key === name);
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view[1]} · byrote`;
  document.getElementById("tip").hidden = true;
  if (shown?.name === name && shown.changed) {
    shown.changed(parameters);
    return;
  }
  leave();
  const main = document.getElementById("main");
  const cleanups = [];
  leave = () => cleanups.forEach((clean) => clean());
  fill(main);
  try {
    // An answer that comes after the view was left must not change the address.
    let isHere = true;
    cleanups.push(() => (isHere = false));
    const changed = view[2].show(main, parameters, (clean) => cleanups.push(clean), (next, quiet) => isHere && go(name, next, quiet));
    shown = { name, changed };
  } catch (error) {
    shown = null;
    fill(main, problem(error));
  }
}

fill(document.getElementById("nav"), make("ul", {}, views.map(([key, title]) =>
  make("li", {}, make("a", { href: `#/${key}`, "data-view": key }, title)))));
const TROUBLE = { lost: "Connection lost; trying again …", refused: "The server was started again with another token: open the address that it printed." };
onConnection((state) => {
  document.getElementById("connection").textContent = TROUBLE[state] ?? "";
});
// What is shown beside the pointer goes away.
const dismiss = () => (document.getElementById("tip").hidden = true);
addEventListener("keydown", (event) => event.key === "Escape" && dismiss());
for (const name of ["pointerdown", "wheel", "touchmove"]) addEventListener(name, dismiss, { passive: true });
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
// The token is in a cookie now, and belongs neither in a bookmark nor in the history.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);
await connect();
addEventListener("hashchange", show);
show();
