// Figures as SVG: lines, points, bars, a map. Every figure has its numbers as a table and as CSV.

import { csv, download, draw, make, number } from "./make.js";

// Colours that colour-blind readers tell apart; the style sheet has them for light and dark. Lines are dashed in turn as well.
const COLOURS = 9;
const DASHES = [null, "6 3", "2 3", "8 3 2 3"];

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
    if (whole.length > 1) return whole;
    // Less than two decades: parts of them, and within one, even steps.
    const parts = all.flatMap((t) => [t, 2 * t, 5 * t]).filter(within);
    if (parts.length > 1) return parts;
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
  if (log && (t >= 1e4 || t < 1e-3)) return `1e${Math.round(Math.log10(t))}`;
  return number(t, 4);
}

function extent(values, log) {
  const good = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  if (good.length === 0) return log ? [1, 10] : [0, 1];
  let low = Math.min(...good);
  let high = Math.max(...good);
  if (log) {
    if (low === high) return [low / 2, high * 2];
    return [low / 1.15, high * 1.15];
  }
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

function width() {
  return document.documentElement.clientWidth < 640 ? 360 : 720;
}

/**
 * Lines and points. series: [{name, points: [[x, y]], dashed, marks: only points, step}]; x, y: {label, log}.
 * Returns an element with `update(series)` that draws it again.
 */
export function lines({ title, name, x, y, series, height = 300, note = null, key = true }) {
  const place = make("div", { class: "drawing" });
  const caption = make("figcaption", {}, title, note ? make("span", { class: "note" }, ` ${note}`) : null);
  const details = make("details", {}, make("summary", {}, "Table"), make("div", { class: "scroll", tabindex: "0" }));
  let shown = series;
  const rows = () => shown.flatMap((s) => s.points.map(([a, b]) => [s.name, a, b]));
  const heads = ["series", x.label, y.label];
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const all = rows();
    details.lastChild.replaceChildren(make("table", {},
      make("caption", {}, all.length > 1000 ? `The first 1,000 of ${all.length} rows; all are in the CSV file.` : title),
      make("thead", {}, make("tr", {}, heads.map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, all.slice(0, 1000).map((row) => make("tr", {}, row.map((v, i) => make(i ? "td" : "th", { class: i ? "number" : null }, i ? number(v, 6) : v)))))));
  });
  const figure = make("figure", { "data-figure": name }, caption, place, make("div", { class: "behind" }, details, download(`${name}.csv`, () => csv(heads, rows()))));
  figure.update = (next) => {
    shown = next;
    place.replaceChildren(chart(title, shown, x, y, height), ...(key && shown.length > 1 ? [legend(shown)] : []));
  };
  figure.update(series);
  return figure;
}

function legend(series) {
  return make("ul", { class: "legend" }, series.slice(0, 40).map((s, i) =>
    make("li", {}, draw("svg", { width: 26, height: 10, "aria-hidden": "true" }, s.marks
      ? draw("circle", { cx: 13, cy: 5, r: 4, class: `mark ${colour(s.colour ?? i)}` })
      : draw("line", { x1: 1, x2: 25, y1: 5, y2: 5, class: `line ${colour(s.colour ?? i)}`, "stroke-dasharray": dash(s, i) })), s.name)),
    series.length > 40 ? make("li", {}, `and ${series.length - 40} more`) : null);
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
  const xs = extent(series.flatMap((s) => s.points.map((p) => p[0])), x.log);
  const ys = extent(series.flatMap((s) => s.points.map((p) => p[1])), y.log);
  if (y.zero && !y.log) ys[0] = Math.min(0, ys[0]);
  const scale = (axis, [low, high], from, to) => {
    const f = axis.log ? Math.log : (v) => v;
    return (v) => from + ((f(v) - f(low)) / (f(high) - f(low) || 1)) * (to - from);
  };
  const px = scale(x, xs, left, w - right);
  const py = scale(y, ys, h - bottom, top);
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title, class: "chart" });
  for (const t of ticks(ys[0], ys[1], y.log)) {
    svg.append(draw("line", { x1: left, x2: w - right, y1: py(t), y2: py(t), class: "grid" }),
      draw("text", { x: left - 6, y: py(t) + 4, class: "tick end" }, label(t, y.log)));
  }
  for (const t of ticks(xs[0], xs[1], x.log)) {
    svg.append(draw("line", { x1: px(t), x2: px(t), y1: top, y2: h - bottom, class: "grid" }),
      draw("text", { x: px(t), y: h - bottom + 16, class: "tick middle" }, label(t, x.log)));
  }
  svg.append(draw("line", { x1: left, x2: w - right, y1: h - bottom, y2: h - bottom, class: "axis" }),
    draw("text", { x: (left + w - right) / 2, y: h - 6, class: "name middle" }, x.label),
    draw("text", { x: 12, y: (top + h - bottom) / 2, class: "name middle", transform: `rotate(-90 12 ${(top + h - bottom) / 2})` }, y.label));
  const near = [];
  series.forEach((s, i) => {
    const good = s.points.filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!x.log || a > 0) && (!y.log || b > 0));
    const at = good.map(([a, b]) => [px(a), py(b)]);
    good.forEach((p, j) => near.push([at[j][0], at[j][1], s.name, p]));
    if (!s.marks && at.length > 1) {
      const path = at.map(([a, b], j) => `${j === 0 ? "M" : "L"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
      svg.append(draw("path", { d: path, class: `line ${colour(s.colour ?? i)}`, "stroke-dasharray": dash(s, i) }));
    }
    if (s.marks || at.length < 30) {
      // A curve that grows shows where it is.
      for (const [a, b] of s.dots === false ? at.slice(-1) : at) svg.append(draw("circle", { cx: a.toFixed(1), cy: b.toFixed(1), r: s.marks ? 5 : 2.6, class: `mark ${colour(s.colour ?? i)}` }));
    }
  });
  svg.addEventListener("pointermove", (event) => {
    const seen = svg.getBoundingClientRect();
    const mx = ((event.clientX - seen.left) / seen.width) * w;
    const my = ((event.clientY - seen.top) / seen.height) * h;
    let best = null;
    let distance = 900;
    for (const p of near) {
      const d = (p[0] - mx) ** 2 + (p[1] - my) ** 2;
      if (d < distance) [best, distance] = [p, d];
    }
    hint(event, best ? `${best[2]}: ${x.label} ${number(best[3][0], 5)}, ${y.label} ${number(best[3][1], 5)}` : null);
  });
  svg.addEventListener("pointerleave", (event) => hint(event, null));
  return svg;
}

/** Horizontal bars: rows [{name, values: [share], text: [..], pick}], one colour per value. */
export function bars({ title, name, heads, rows, keys = null }) {
  const most = Math.max(1e-300, ...rows.flatMap((row) => row.values.map((v) => v ?? 0)));
  const list = make("ol", { class: "bars" }, rows.map((row) => {
    const parts = row.values.map((v, i) => {
      const bar = make("span", { class: `bar ${colour(i)}` });
      bar.style.width = `${(100 * (v ?? 0)) / most}%`;
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
  svg.addEventListener("pointermove", (event) => {
    const seen = svg.getBoundingClientRect();
    const j = Math.floor(((event.clientX - seen.left) / seen.width) * columns.length);
    const i = Math.floor(((event.clientY - seen.top) / seen.height) * values.length);
    if (values[i]?.[j] !== undefined) hint(event, `${rows[i]}; ${columns[j]}: ${number(values[i][j])}`);
  });
  svg.addEventListener("pointerleave", (event) => hint(event, null));
  const raw = () => csv(["context", ...columns], values.map((row, i) => [rows[i], ...row]));
  return make("figure", { "data-figure": name }, make("figcaption", {}, title, note ? make("span", { class: "note" }, ` ${note}`) : null),
    make("div", { class: "drawing" }, svg), make("div", { class: "behind" },
      make("details", {}, make("summary", {}, "Table"), make("div", { class: "scroll", tabindex: "0" }, make("table", {},
        make("tbody", {}, values.map((row, i) => make("tr", {}, make("th", { scope: "row" }, rows[i]), row.map((v) => make("td", { class: "number" }, number(v, 3))))))))),
      download(`${name}.csv`, raw)));
}
