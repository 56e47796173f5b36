// Making elements. Data becomes text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text is text. A handler is an attribute `onclick` with a function. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Formats are made once: making one takes a hundred times as long as using it.
const formats = new Map();
function format(kind, digits) {
  const key = `${kind} ${digits}`;
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en-US", { [kind]: digits }));
  return formats.get(key);
}

/** A count with thousands separated. */
export function count(n) {
  return n === null || n === undefined ? "–" : format("maximumFractionDigits", 0).format(Number(n));
}

/** A number with about four digits. */
export function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (size >= 1e6 || size < 1e-3) return x.toExponential(digits - 2).replace("e+", "e");
  return format("maximumSignificantDigits", digits).format(x);
}

/** A share as per cent. */
export function percent(x, digits = 3) {
  if (x === null || x === undefined) return "–";
  if (x > 0 && x < 1e-6) return "<0.0001%";
  return `${format("maximumSignificantDigits", digits).format(100 * x)}%`;
}

/** A duration. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** A token so that spaces and line ends can be seen. */
export function visible(text) {
  if (text === "") return "(empty)";
  return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "·");
}

/** Text without what could reverse or hide it. */
export function plain(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "·");
}

/** A context: spaces at its ends, and spaces that follow each other, can be seen. */
export function shown(text) {
  return plain(text.replace(/^ +| +$| {2,}/g, (spaces) => "␣".repeat(spaces.length)).replace(/\n/g, "⏎").replace(/\t/g, "⇥")) || "(empty)";
}

/** Tokens with their counts. A token may be a comma, so it is set apart by its font. */
export function tokens(list, more = false) {
  return make("span", { class: "pairs" }, list.map(({ text, count: n }) => [make("span", { class: "pair" }, make("span", { class: "token" }, visible(text)), ` ${count(n)}`), " "]), more ? "…" : null);
}

/** The last part of a path; all of it on hovering. */
export function base(path) {
  const short = plain(path.replace(/[/\\]+$/, "").split(/[/\\]/).at(-1) || path);
  return short === path ? short : make("span", { title: plain(path) }, short);
}

/** A message as a sentence, without what only matters elsewhere: of a path from the root its last part, of a setting's name no quotes. */
export function brief(message) {
  return plain(message)
    .replace(/(^|[\s("“])(?:\/[^\s/:]+)+\/([^\s/:]+)/g, "$1$2")
    .replaceAll("`", "")
    // The page tries again by itself.
    .replace("; try again in a moment", "")
    .replace(/^[a-z](?=[a-z]* )/, (first) => first.toUpperCase());
}

/** What is wrong with a setting, as it is said at its field. */
export function fault(error) {
  const found = brief(error.message.replace(`${error.setting}: `, ""));
  return found[0].toLowerCase() + found.slice(1);
}

/** An error message; all of it on hovering. */
export function problem(error) {
  const message = error.message ?? String(error);
  return make("p", { class: "problem", role: "alert", title: plain(message) }, brief(message));
}

/** Terms and values. `update(pairs)` changes the texts that differ. */
export function facts(pairs) {
  const list = make("dl", { class: "facts" });
  let shown = [];
  list.update = (next) => {
    const given = next.filter(Boolean);
    const isSame = given.length === shown.length && given.every(([term], i) => term === shown[i][0]);
    if (!isSame) fill(list, given.map(([term, ...rest]) => make("div", {}, make("dt", {}, term), value(...rest))));
    else given.forEach(([, text, note], i) => {
      // Elements are made only for what differs.
      const [, before, noteBefore] = shown[i];
      if (text === before && note === noteBefore) return;
      const [now, place] = [value(text, note), list.children[i]];
      if (now.textContent !== place.lastChild.textContent) place.lastChild.replaceWith(now);
    });
    shown = given;
  };
  const value = (text, note) => make("dd", {}, text, note ? make("span", { class: "note" }, ` ${note}`) : null);
  list.update(pairs);
  return list;
}

/**
 * Makes sections that open. Which of them are open is in the address of the view, under `open`, so it outlasts what is drawn anew.
 * `state` tells the parameters of the address, `set` changes them.
 */
export function sections(state, set) {
  const opened = () => (state().open ?? "").split(",").filter(Boolean);
  return (key, title, ...content) => {
    const box = make("details", { open: opened().includes(key) }, make("summary", {}, title), content);
    box.addEventListener("toggle", () => {
      if (box.isConnected && box.open !== opened().includes(key)) set({ open: (box.open ? [...opened(), key] : opened().filter((other) => other !== key)).join(",") });
    });
    return box;
  };
}

/** A bar of progress with words. */
export function progress(state) {
  const { stage, done, total, unit } = state ?? {};
  const words = stage ? `${stage}: ${count(done)}${total ? ` of ${count(total)}` : ""} ${unit}` : "starting";
  return make("div", { class: "progress" },
    make("progress", total ? { max: total, value: Math.min(done, total), "aria-label": words } : { "aria-label": words }),
    make("p", { role: "status" }, words));
}

/** CSV text of a table. */
export function csv(heads, rows) {
  const field = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    // A program for tables would compute what begins like a formula.
    if (/^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [heads, ...rows].map((row) => row.map(field).join(",") + "\n").join("");
}

/** A link that saves a text as a file; the text is made when it is asked for. */
export function download(name, text) {
  return make("button", {
    type: "button",
    class: "link",
    onclick: () => {
      const address = URL.createObjectURL(new Blob([text()], { type: "text/csv" }));
      const link = make("a", { href: address, download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    },
  }, `CSV (${name})`);
}

/**
 * A table. Columns: {head, of(row) -> text or node, number: align right, raw(row) -> value in the CSV}.
 * `pick` makes rows clickable, and reachable with the keyboard by a button in the first cell. `update(rows)` of the element puts in the
 * rows that differ.
 */
export function table({ caption, name, columns, rows, pick = null, chosen = null, empty = "Nothing." }) {
  if (rows.length === 0) return make("p", { class: "note" }, empty);
  const cell = (column, row, i) => {
    const content = column.of(row);
    const inner = i === 0 && pick ? make("button", { type: "button", class: "link" }, content) : content;
    if (inner !== content) inner.onclick = () => pick(row);
    return make(i === 0 ? "th" : "td", { class: column.number ? "number" : null, scope: i === 0 ? "row" : null }, inner);
  };
  const line = (row) => make("tr", { class: chosen?.(row) ? "chosen" : null }, columns.map((column, i) => cell(column, row, i)));
  const raw = (column, row) => {
    const value = (column.raw ?? column.of)(row);
    return value instanceof Node ? value.textContent.trim() : value;
  };
  let shown = rows;
  const body = make("tbody", {}, rows.map(line));
  const element = make("div", { class: "table" },
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", {},
        make("caption", {}, caption),
        make("thead", {}, make("tr", {}, columns.map((column) => make("th", { scope: "col", class: column.number ? "number" : null }, column.head)))),
        body)),
    download(`${name}.csv`, () => csv(columns.map((column) => column.key ?? column.head), shown.map((row) => columns.map((column) => raw(column, row))))));
  element.update = (next) => {
    const before = shown;
    shown = next;
    next.forEach((row, i) => {
      const old = body.children[i];
      if (!old) {
        body.append(line(row));
        return;
      }
      old.classList.toggle("chosen", Boolean(chosen?.(row)));
      if (row !== before[i]) {
        // Only cells that differ are laid out again; the first one may have the focus.
        columns.forEach((column, j) => {
          const content = column.of(row);
          const place = old.children[j];
          const inner = j === 0 && pick ? place.firstChild : place;
          if (inner !== place) inner.onclick = () => pick(row);
          if (typeof content === "string" && inner.firstChild?.nodeType === Node.TEXT_NODE) {
            if (content !== inner.textContent) inner.firstChild.data = content;
            return;
          }
          const now = content instanceof Node ? content : document.createTextNode(content);
          if (now.textContent !== inner.textContent) inner.replaceChildren(now);
        });
      }
    });
    while (body.children.length > next.length) body.lastChild.remove();
  };
  return element;
}
