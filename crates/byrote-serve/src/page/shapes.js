// What fits? A shape on sliders: its parameters, every bound that applies, the corpus as a point.

import { ask, listen } from "./ask.js";
import { lines } from "./figure.js";
import { count, facts, fault, fill, make, number, problem, sections, table } from "./make.js";

// The steps of each slider. One layer is a transformer with one layer of attention and neurons, as in the papers.
const twos = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => 2 ** (from + i));
const between = (values) => values.flatMap((v, i) => (i + 1 < values.length && v >= 2 ? [v, 1.5 * v] : [v]));
const SLIDERS = [
  ["n_layers", "layers", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96], 1],
  ["d_model", "width", between(twos(1, 14)), 16],
  ["n_heads", "heads", [1, 2, 4, 8, 12, 16, 24, 32, 64, 96, 128], 4],
  ["d_mlp", "neurons per layer", [0, ...between(twos(2, 17))], 512],
  ["d_vocab", "vocabulary", between(twos(1, 18)), 512],
  ["n_ctx", "context", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768, 131072], 9],
];

export function show(main, parameters, clean, go) {
  const form = make("form", { class: "sliders", onsubmit: (event) => event.preventDefault() });
  // What a screen reader says at every step is short; the tables are there to be read.
  const said = make("p", { role: "status", class: "spoken" });
  const out = make("div");
  fill(main, make("h1", {}, "What fits?"),
    make("p", {}, "Try a shape: how many parameters it has, and how many contexts it is guaranteed to hold, by every bound that applies."), form, said, out);
  let state = {};
  let corpus = null;
  let asked = 0;
  let figure = null;
  let drawn = null;
  const section = sections(() => state, (change) => go((state = { ...state, ...change }), true));

  const values = () => Object.fromEntries(SLIDERS.map(([name, , , fallback]) => [name, Number(state[name] ?? corpus?.[name] ?? fallback)]));

  /** What is wrong with a number as it was typed. */
  function mistake(name) {
    const text = state[name];
    const least = name === "d_mlp" ? 0 : 1;
    if (text === undefined) return "";
    if (!/^[+-]?\d+$/.test(text)) return "must be a whole number";
    return Number(text) < least ? `must be at least ${least} (got ${text})` : "";
  }

  function controls() {
    const now = values();
    fill(form, SLIDERS.map(([name, title, steps]) => {
      const nearest = steps.reduce((best, v, i) => (Math.abs(Math.log((v + 1) / (now[name] + 1))) < Math.abs(Math.log((steps[best] + 1) / (now[name] + 1))) ? i : best), 0);
      const text = make("input", { type: "number", min: name === "d_mlp" ? 0 : 1, step: 1, value: now[name], "aria-label": `${title}, exactly`, "aria-describedby": `s-${name}-problem`, onchange: () => set(name, text.value) });
      const slider = make("input", { type: "range", id: `s-${name}`, min: 0, max: steps.length - 1, step: 1, value: nearest, "aria-valuetext": String(now[name]), oninput: () => {
        text.value = steps[slider.value];
        slider.setAttribute("aria-valuetext", text.value);
        set(name, steps[slider.value]);
      } });
      return make("div", { class: "slider" }, make("label", { for: `s-${name}` }, title, make("code", {}, name)), slider, text, make("p", { class: "problem", id: `s-${name}-problem`, "data-setting": name, role: "alert" }));
    }),
    corpus ? make("div", { class: "slider wide" }, make("label", {}, make("input", { type: "checkbox", checked: state.corpus !== "0", onchange: (event) => set("corpus", event.target.checked ? "" : "0") }), ` compare with the corpus (${count(corpus.contexts)} contexts)`)) : null);
  }

  function set(name, value) {
    state = { ...state, [name]: String(value) };
    go(state, true);
    evaluate();
  }

  async function evaluate() {
    const mine = ++asked;
    const { n_layers, ...rest } = values();
    const asking = { ...rest, ...(n_layers > 1 ? { n_layers } : {}), corpus: corpus && state.corpus !== "0" ? 1 : undefined };
    for (const [name] of SLIDERS) mark(name, mistake(name));
    if (SLIDERS.some(([name]) => mistake(name))) {
      invalid(null);
      return;
    }
    try {
      const found = await ask("/api/shapes", asking);
      if (mine === asked) answer(found, values());
    } catch (error) {
      if (mine === asked) invalid(mark(error.setting ?? "", fault(error)) ? null : error);
    }
  }

  /** Says what is wrong at the field of a setting, if it has one. */
  function mark(name, text) {
    const place = form.querySelector(`[data-setting="${CSS.escape(name)}"]`);
    if (!place) return false;
    place.textContent = text;
    const field = place.parentElement.querySelector("input[type=number]");
    if (text) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    return true;
  }

  function invalid(error) {
    asked += 1;
    figure = drawn = null;
    said.textContent = "";
    fill(out, error ? problem(error) : make("p", { class: "note" }, "These settings do not make a valid model."));
  }

  function answer(found, now) {
    const text = JSON.stringify(found);
    if (text === drawn) return;
    drawn = text;
    const kinds = Object.entries(found.parameters_by_kind ?? {}).filter(([, n]) => n !== 0);
    const applies = found.rows.filter((row) => row.applies);
    const held = guaranteed(found, applies);
    const series = (found.picture?.curves ?? []).map((c) => ({ name: `${c.key} (${c.kind}, ${c.task})`, points: c.points, dashed: c.dashed, wide: c.kind === "necessary" }));
    // What is sufficient comes close to what is necessary, which is drawn wide so that it can still be seen.
    series.sort((a, b) => Boolean(b.wide) - Boolean(a.wide));
    // A coordinate that is not known is drawn where the other one meets the axes.
    const point = (marker, name, i) => (marker?.parameters && marker?.contexts ? [{ name, points: [[marker.parameters, marker.contexts]], marks: true, diamond: i === 7, colour: i }] : []);
    series.push(...point(found.picture?.corpus, "the corpus, at the fewest parameters for every choice of distributions", 8), ...point(held, "this model, at what it is guaranteed to hold", 7));
    const fresh = lines({
      title: "Contexts against parameters", name: "contexts-against-parameters", height: 380,
      note: "Wide: necessary. Dashed: known up to a constant, which is set to one.",
      x: { label: "parameters", log: true }, y: { label: "contexts", log: true }, series,
    });
    const open = figure?.querySelector("details")?.open;
    figure = fresh;
    if (open) fresh.querySelector("details").open = true;
    said.textContent = `${count(found.parameters)} parameters; ${held?.contexts ? `guaranteed to hold ${count(Math.floor(held.contexts))} contexts` : "nothing proven"}.`;
    fill(out,
      facts([
        ["parameters", count(found.parameters)],
        ["guaranteed to hold", held?.contexts ? `${count(Math.floor(held.contexts))} contexts` : "nothing proven", held?.task ? `${TASKS[held.task] ?? held.task}${held.condition ? `, ${held.condition}` : ""}` : null],
      ]),
      found.verdict?.sentence ? verdict(found.verdict.sentence) : null,
      table({
        caption: "Parameters by kind", name: "parameters", rows: kinds,
        columns: [{ head: "kind", of: ([kind]) => kind.replaceAll("_", " ") }, { head: "parameters", number: true, of: ([, n]) => count(n), raw: ([, n]) => n }],
      }),
      fresh,
      table({
        caption: `Bounds that apply (${applies.length} of ${found.rows.length})`, name: "bounds", rows: applies,
        columns: [
          { head: "bound", of: (r) => r.key },
          { head: "task", of: (r) => String(r.task) },
          { head: "kind", of: (r) => String(r.kind) },
          { head: "contexts", number: true, of: (r) => value(r, "contexts"), raw: (r) => r.contexts ?? r.contexts_order_of },
          { head: "parameters needed", number: true, of: (r) => value(r, "required_parameters"), raw: (r) => r.required_parameters ?? r.required_parameters_order_of },
          { head: "statement", of: (r) => make("span", { class: "long" }, r.statement) },
        ],
      }),
      section("others", `Bounds that do not apply, and why (${found.rows.length - applies.length})`, table({
        caption: "Bounds that do not apply", name: "other-bounds", rows: found.rows.filter((row) => !row.applies),
        columns: [{ head: "bound", of: (r) => r.key }, { head: "why not", of: (r) => make("span", { class: "long" }, r.why_not ?? "") }],
      })));
    for (const slider of form.querySelectorAll("input[type=range]")) slider.setAttribute("aria-valuetext", String(now[slider.id.slice(2)]));
  }

  async function start() {
    try {
      const found = await ask("/api/corpus");
      corpus = found.state === "ready" ? { d_vocab: found.summary.d_vocab, n_ctx: found.summary.n_ctx, contexts: found.summary.contexts } : null;
    } catch {
      corpus = null;
    }
    controls();
    evaluate();
  }

  state = Object.fromEntries(parameters);
  start();
  clean(listen("corpus", (event) => event.state === "ready" && start()));
  clean(listen("resync", evaluate));
  return (next) => {
    state = Object.fromEntries(next);
    controls();
    evaluate();
  };
}

// What a context may be followed by.
const TASKS = { distribution: "with any distributions of next tokens", association: "with any one next token each" };

/** What the model is guaranteed to hold: distributions, or else single next tokens, by the best of the bounds that apply. */
function guaranteed(found, applies) {
  if (found.picture?.model?.contexts) return found.picture.model;
  const best = (task) => applies.filter((row) => row.kind === "sufficient" && row.task === task && row.contexts > 0).sort((a, b) => b.contexts - a.contexts)[0];
  const row = best("distribution") ?? best("association");
  return row ? { parameters: found.parameters, contexts: row.contexts, task: row.task } : null;
}

/** The answer, with its first word or two in bold: "guaranteed: some weights ...". */
function verdict(sentence) {
  const colon = sentence.indexOf(": ");
  return make("p", { id: "verdict" }, colon > 0 && colon < 40 ? [make("strong", {}, sentence.slice(0, colon)), sentence.slice(colon)] : sentence, ".");
}

/** A number of a row; one known only up to a constant follows a tilde. */
function value(row, name) {
  const exact = row[name];
  const order = row[`${name}_order_of`];
  if (exact !== null && exact !== undefined) return typeof exact === "number" ? count(exact) : String(exact);
  return order !== null && order !== undefined ? `~${typeof order === "number" ? number(order) : order}` : "–";
}
