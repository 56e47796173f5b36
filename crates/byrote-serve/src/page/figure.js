// Figures as SVG: lines, points, bars, a map. Every figure has its numbers as a table and as CSV.

import { csv, download, draw, make, number } from "./make.js";

// Colours that colour-blind readers tell apart; the style sheet has them for light and dark. Lines are dashed in turn as well.
const COLOURS = 9;
const DASHES = [null, "6 3", "2 3", "8 3 2 3"];
// The points of a path at the end of a line that grows.
const PIECE = 24;

/** The class of a series. */
export function colour(i) {
  return `c${i % COLOURS}`;
}

function ticks(low, high, log) {
  if (log) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) all.push(10 ** power);
    const every = Math.max(1, Math.ceil(all.length / 6));
    const within = (t) => t >= low * 0.999 && t <= high * 1.001;
    const whole = all.filter((t, i) => within(t) && i % every === 0);
    if (whole.length > 3 || (every > 1 && whole.length > 1)) return whole;
    // Few decades: parts of them, and within one, even steps.
    const parts = all.flatMap((t) => [t, 2 * t, 5 * t]).filter(within);
    if (parts.length > 1) return parts.length < 9 ? parts : whole;
  }
  const span = high - low || 1;
  const unit = 10 ** Math.floor(Math.log10(span / 4));
  const step = [1, 2, 5, 10].map((k) => k * unit).find((s) => span / s <= 6);
  const all = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) all.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return all;
}

function label(t, log) {
  if (t === 0) return "0";
  if (log && (t >= 1e4 || t < 1e-3)) return t.toExponential(0).replace("e+", "e");
  return number(t, 4);
}

/** The next number above, or below, of the form 1, 1.5, 2, 3, 5 or 7 times a power of ten. */
function round(value, up) {
  const unit = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 1.5, 2, 3, 5, 7, 10].map((k) => k * unit);
  return up ? steps.find((s) => s >= value * (1 - 1e-12)) : steps.findLast((s) => s <= value * (1 + 1e-12));
}

/** The smallest and the largest value of an axis so far: those of `points` from a number on are added to `found`. */
function widen(found, points, from, i, log) {
  for (let j = from; j < points.length; j++) {
    const v = points[j][i];
    if (!Number.isFinite(v) || (log && v <= 0)) continue;
    if (v < found[0]) found[0] = v;
    if (v > found[1]) found[1] = v;
  }
}

/**
 * The range of an axis. With `steady` its ends are round numbers, so that a figure that grows keeps its scale for a while and only what is
 * new has to be drawn.
 */
function extent([low, high], { log, steady }) {
  if (low > high) return log ? [1, 10] : [0, 1];
  if (log) {
    if (steady) return [round(low / 1.02, false), round(high * 1.02, true)];
    if (low === high) return [low / 2, high * 2];
    return [low / 1.15, high * 1.15];
  }
  if (steady && low >= 0 && high > 0) return [0, round(high, true)];
  if (low > 0 && low < high * 0.6) low = 0;
  if (low === high) return [low - 0.5, high + 0.5];
  return [low, high + (high - low) * 0.04];
}

const tip = () => document.getElementById("tip");

/** Shows a text beside the pointer or the element that has the focus. */
export function hint(event, text) {
  const box = tip();
  if (text === null) {
    box.hidden = true;
    return;
  }
  box.textContent = text;
  box.hidden = false;
  const at = event.clientX !== undefined && event.type !== "focus" ? { x: event.clientX, y: event.clientY } : (() => {
    const seen = event.target.getBoundingClientRect();
    return { x: seen.left, y: seen.bottom };
  })();
  const x = Math.min(at.x + 12, document.documentElement.clientWidth - box.offsetWidth - 8);
  box.style.left = `${Math.max(4, x)}px`;
  box.style.top = `${Math.min(at.y + 16, document.documentElement.clientHeight - box.offsetHeight - 8)}px`;
}

/** The width of figures, in units of which a phone shows one per pixel. */
export function width() {
  return document.documentElement.clientWidth < 640 ? 360 : 720;
}

/**
 * Lines and points. series: [{name, points: [[x, y]], dashed, marks: only points, diamond: of this form, wide: seen under another line, dots: false for a point at the end only}];
 * x, y: {label, log, steady}. `latest` tells the series for the table and the CSV, if they may be newer than what is drawn. Returns an
 * element with `update(series)`, which draws what has changed: the paths that have grown, or everything if the scale has changed.
 */
export function lines({ title, name, x, y, series, height = 300, note = null, key = true, latest = null }) {
  const place = make("div", { class: "drawing" });
  const caption = make("figcaption", {}, title, note ? make("span", { class: "note" }, ` ${note}`) : null);
  const details = make("details", {}, make("summary", {}, "Table"), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}: table` }));
  let shown = series;
  let drawn = null;
  let named = "";
  const rows = () => (latest?.() ?? shown).flatMap((s) => s.points.map(([a, b]) => [s.name, a, b]));
  const heads = ["series", x.label, y.label];
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const all = rows();
    details.lastChild.replaceChildren(make("table", {},
      make("caption", {}, all.length > 1000 ? `The first 1,000 of ${all.length} rows; all are in the CSV file.` : title),
      make("thead", {}, make("tr", {}, heads.map((h, i) => make("th", { scope: "col", class: i ? "number" : null }, h)))),
      make("tbody", {}, all.slice(0, 1000).map((row) => make("tr", {}, row.map((v, i) => make(i ? "td" : "th", { class: i ? "number" : null }, i ? number(v, 6) : v)))))));
  });
  const figure = make("figure", { "data-figure": name }, caption, place, make("div", { class: "behind" }, details, download(`${name}.csv`, () => csv(heads, rows()))));
  figure.update = (next) => {
    if (!drawn?.grow(next)) {
      drawn = chart(title, next, x, y, height);
      place.replaceChildren(make("div", { class: "canvas" }, drawn.svg));
      // Its size is known, so that what is drawn in it changes nothing around it.
      place.firstChild.style.aspectRatio = drawn.ratio;
    }
    // A drawing that is moved is laid out again, so the list of its series is put beside it.
    const names = key && next.length > 1 ? next.map((s) => s.name).join("\n") : "";
    if (names !== named || (names && place.children.length === 1)) {
      named = names;
      place.children[1]?.remove();
      if (names) place.append(legend(next));
    }
    shown = next;
  };
  figure.update(series);
  return figure;
}

function legend(series) {
  return make("ul", { class: "legend" }, series.slice(0, 40).map((s, i) =>
    make("li", {}, draw("svg", { width: 26, height: 10, "aria-hidden": "true" }, s.marks
      ? mark(s, 13, 5, 4, colour(s.colour ?? i))
      : draw("line", { x1: 1, x2: 25, y1: 5, y2: 5, class: `line ${s.wide ? "wide " : ""}${colour(s.colour ?? i)}`, "stroke-dasharray": dash(s, i) })), s.name)),
    series.length > 40 ? make("li", {}, `and ${series.length - 40} more`) : null);
}

/** A point: a circle, or a diamond, so that two of them are told apart by more than their colour. */
function mark(s, a, b, r, kind) {
  if (!s.diamond) return draw("circle", { cx: a.toFixed(1), cy: b.toFixed(1), r, class: `mark ${kind}` });
  const corners = [[a, b - 1.4 * r], [a + 1.4 * r, b], [a, b + 1.4 * r], [a - 1.4 * r, b]];
  return draw("polygon", { points: corners.map((corner) => corner.map((v) => v.toFixed(1)).join(",")).join(" "), class: `mark ${kind}` });
}

function dash(s, i) {
  return s.dashed === true ? "5 4" : s.dashed === false ? null : DASHES[Math.floor((s.colour ?? i) / COLOURS) % DASHES.length];
}

function chart(title, series, x, y, height) {
  const w = width();
  const h = height;
  const left = 58;
  const right = 12;
  const top = 10;
  const bottom = 40;
  // The values that occur, kept so that only new points have to be looked at.
  const spans = [[Infinity, -Infinity], [Infinity, -Infinity]];
  const ranges = () => {
    const [xs, ys] = [extent(spans[0], x), extent(spans[1], y)];
    if (y.zero && !y.log) ys[0] = Math.min(0, ys[0]);
    return [xs, ys];
  };
  const look = (points, from) => [x, y].forEach((axis, i) => widen(spans[i], points, from, i, axis.log));
  for (const s of series) look(s.points, 0);
  const [xs, ys] = ranges();
  const scale = (axis, [low, high], from, to) => {
    const f = axis.log ? Math.log : (v) => v;
    const [first, span] = [f(low), f(high) - f(low) || 1];
    return (v) => from + ((f(v) - first) / span) * (to - from);
  };
  const px = scale(x, xs, left, w - right);
  const py = scale(y, ys, h - bottom, top);
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title, class: "chart" });
  for (const t of ticks(ys[0], ys[1], y.log)) {
    svg.append(draw("line", { x1: left, x2: w - right, y1: py(t), y2: py(t), class: "grid" }),
      draw("text", { x: left - 6, y: py(t) + 4, class: "tick end" }, label(t, y.log)));
  }
  let free = 0;
  for (const t of ticks(xs[0], xs[1], x.log)) {
    svg.append(draw("line", { x1: px(t), x2: px(t), y1: top, y2: h - bottom, class: "grid" }));
    // A label at the right end stays within the figure, and one that would cover another is left out.
    const words = label(t, x.log);
    const space = 7 * words.length;
    const isLast = px(t) + space / 2 > w;
    const from = isLast ? w - 1 - space : px(t) - space / 2;
    if (from < free) continue;
    free = from + space + 6;
    svg.append(draw("text", { x: isLast ? w - 1 : px(t), y: h - bottom + 16, class: `tick ${isLast ? "end" : "middle"}` }, words));
  }
  svg.append(draw("line", { x1: left, x2: w - right, y1: h - bottom, y2: h - bottom, class: "axis" }),
    draw("text", { x: (left + w - right) / 2, y: h - 6, class: "name middle" }, x.label),
    draw("text", { x: 12, y: (top + h - bottom) / 2, class: "name middle", transform: `rotate(-90 12 ${(top + h - bottom) / 2})` }, y.label));
  const can = ([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!x.log || a > 0) && (!y.log || b > 0);
  const parts = [];
  let all = series;

  /** Draws a series, or what has been added to it. */
  function put(s, i) {
    const part = (parts[i] ??= { path: null, d: "", size: 0, length: 0, end: null, n: 0, last: null, dots: [] });
    const from = part.n;
    const n = s.points.length;
    if (from === n) return;
    const added = s.points.slice(from).filter(can).map(([a, b]) => [px(a), py(b)]);
    [part.n, part.last] = [n, s.points[n - 1]];
    if (added.length === 0) return;
    const kind = colour(s.colour ?? i);
    if (!s.marks) extend(part, added, s.wide ? `wide ${kind}` : kind, dash(s, i), from > 0);
    if (s.dots === false) {
      // A curve that grows shows where it is.
      const [a, b] = added.at(-1).map((v) => v.toFixed(1));
      if (part.dots.length === 0) svg.append((part.dots[0] = draw("circle", { r: 2.6, class: `mark ${kind}` })));
      part.dots[0].setAttribute("cx", a);
      part.dots[0].setAttribute("cy", b);
    } else if (s.marks || n < 30) {
      for (const [a, b] of added) svg.append(mark(s, a, b, s.marks ? 5 : 2.6, kind));
    }
  }

  /**
   * Adds to a line. A browser paints the surroundings of a path that has changed, so a line that grows gets short paths at its end: what is
   * drawn anew stays small. Dashes continue from one path to the next.
   */
  function extend(part, added, kind, dashes, grows) {
    if (part.path === null || (grows && part.size >= PIECE)) {
      const first = part.end ? [part.end] : [];
      part.d = first.map(([a, b]) => `M${a.toFixed(1)} ${b.toFixed(1)}`).join("");
      part.size = grows ? 0 : PIECE;
      svg.append((part.path = draw("path", { class: `line ${kind}`, "stroke-dasharray": dashes, "stroke-dashoffset": dashes ? part.length.toFixed(1) : null })));
    }
    for (const [a, b] of added) {
      part.d += `${part.d === "" ? "M" : "L"}${a.toFixed(1)} ${b.toFixed(1)}`;
      if (part.end) part.length += Math.hypot(a - part.end[0], b - part.end[1]);
      part.end = [a, b];
      part.size += 1;
    }
    part.path.setAttribute("d", part.d);
  }
  series.forEach(put);

  /** Draws what was added; false if that needs another scale or other series. */
  function grow(next) {
    // Points that were thinned out, or replaced, are drawn from the start.
    const follows = (part, s) => part.n === 0 || (s.points.length >= part.n && s.points[part.n - 1] === part.last);
    if (next.length < all.length || w !== width() || !all.every((s, i) => s.name === next[i].name && follows(parts[i], next[i]))) return false;
    next.forEach((s, i) => look(s.points, parts[i]?.n ?? 0));
    const [nx, ny] = ranges();
    if (nx[0] !== xs[0] || nx[1] !== xs[1] || ny[0] !== ys[0] || ny[1] !== ys[1]) return false;
    all = next;
    next.forEach(put);
    return true;
  }

  const tell = (event) => {
    const seen = svg.getBoundingClientRect();
    const mx = ((event.clientX - seen.left) / seen.width) * w;
    const my = ((event.clientY - seen.top) / seen.height) * h;
    let best = null;
    let distance = 900;
    for (const s of all) {
      for (const point of s.points) {
        if (!can(point)) continue;
        const d = (px(point[0]) - mx) ** 2 + (py(point[1]) - my) ** 2;
        if (d < distance) [best, distance] = [[s.name, point], d];
      }
    }
    hint(event, best ? `${best[0]}: ${x.label} ${number(best[1][0], 5)}, ${y.label} ${number(best[1][1], 5)}` : null);
  };
  // A tap is a click.
  for (const kind of ["pointermove", "click"]) svg.addEventListener(kind, tell);
  svg.addEventListener("pointerleave", (event) => hint(event, null));
  return { svg, grow, ratio: `${w} / ${h}` };
}

/** Horizontal bars: rows [{name, values: [share], text: [..], pick}], one colour per value. */
export function bars({ title, name, heads, rows, keys = null }) {
  const most = Math.max(1e-300, ...rows.flatMap((row) => row.values.map((v) => v ?? 0)));
  const list = make("ol", { class: "bars" }, rows.map((row) => {
    const parts = row.values.map((v, i) => {
      const bar = make("span", { class: `bar ${colour(i)}` });
      // The rest of the line is for the amount.
      bar.style.width = `${(70 * (v ?? 0)) / most}%`;
      return make("span", { class: "track" }, bar, make("span", { class: "amount" }, row.text[i]));
    });
    const head = row.pick ? make("button", { type: "button", class: "link token", onclick: row.pick }, row.name) : make("span", { class: "token" }, row.name);
    return make("li", {}, head, make("span", { class: "tracks" }, parts));
  }));
  const raw = rows.map((row) => [row.name, ...row.values]);
  return make("figure", { "data-figure": name }, make("figcaption", {}, title),
    keys ? make("ul", { class: "legend" }, keys.map((key, i) => make("li", {}, make("span", { class: `swatch ${colour(i)}` }), key))) : null,
    list, make("div", { class: "behind" },
      make("details", {}, make("summary", {}, "Table"), make("div", { class: "scroll", tabindex: "0" }, make("table", {},
        make("thead", {}, make("tr", {}, heads.map((h) => make("th", { scope: "col" }, h)))),
        make("tbody", {}, raw.map((row) => make("tr", {}, row.map((v, i) => make(i ? "td" : "th", { class: i ? "number" : null }, i ? number(v, 6) : v)))))))),
      download(`${name}.csv`, () => csv(heads, raw))));
}

/** A map of numbers: values[row][column], blue below zero, orange above. */
export function map({ title, name, rows, columns, values, note = null }) {
  const most = Math.max(1e-300, ...values.flat().map(Math.abs));
  const [w, h] = [width(), Math.max(80, Math.min(480, 8 * values.length))];
  const [cw, ch] = [w / Math.max(1, columns.length), h / Math.max(1, values.length)];
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title, class: "chart map" });
  values.forEach((row, i) => row.forEach((v, j) => {
    svg.append(draw("rect", {
      x: (j * cw).toFixed(2), y: (i * ch).toFixed(2), width: (cw + 0.3).toFixed(2), height: (ch + 0.3).toFixed(2),
      class: v < 0 ? "below" : "above", "fill-opacity": Math.abs(v / most).toFixed(3),
    }));
  }));
  const tell = (event) => {
    const seen = svg.getBoundingClientRect();
    const j = Math.floor(((event.clientX - seen.left) / seen.width) * columns.length);
    const i = Math.floor(((event.clientY - seen.top) / seen.height) * values.length);
    if (values[i]?.[j] !== undefined) hint(event, `${rows[i]}; ${columns[j]}: ${number(values[i][j])}`);
  };
  for (const kind of ["pointermove", "click"]) svg.addEventListener(kind, tell);
  svg.addEventListener("pointerleave", (event) => hint(event, null));
  const raw = () => csv(["context", ...columns], values.map((row, i) => [rows[i], ...row]));
  return make("figure", { "data-figure": name }, make("figcaption", {}, title, note ? make("span", { class: "note" }, ` ${note}`) : null),
    make("div", { class: "drawing" }, svg), make("div", { class: "behind" },
      make("details", {}, make("summary", {}, "Table"), make("div", { class: "scroll", tabindex: "0" }, make("table", {},
        make("tbody", {}, values.map((row, i) => make("tr", {}, make("th", { scope: "row" }, rows[i]), row.map((v) => make("td", { class: "number" }, number(v, 3))))))))),
      download(`${name}.csv`, raw)));
}
