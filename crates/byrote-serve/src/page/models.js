// Models: one or two of them beside the corpus, their worst contexts, certificates, and pictures of how they work.

import { ask, listen, tell } from "./ask.js";
import { bars, lines, map, width } from "./figure.js";
import { brief, count, draw, facts, fill, make, number, percent, plain, problem, progress, sections, shown as edges, table, tokens, visible } from "./make.js";

export function show(main, parameters, clean, go) {
  const pick = make("div");
  const shown = make("div", { class: "side" });
  const compare = make("section");
  const more = make("div");
  fill(main, make("h1", {}, "Models"), pick, shown, compare, more);
  let state = Object.fromEntries(parameters);
  let all = [];
  let models = [];
  let asked = 0;

  const set = (change) => go({ ...state, ...change });
  const note = (change) => go((state = { ...state, ...change }), true);
  const section = sections(() => state, note);

  async function load() {
    try {
      all = (await ask("/api/models")).models;
    } catch (error) {
      fill(pick, problem(error));
      return;
    }
    if (!state.a && all.length > 0) note({ a: all[0].id });
    if (all.length === 0) {
      fill(pick, make("p", {}, "There are no models here. Name one on the command line, or the directory of a study or a training; or train one under ", make("a", { href: "#/runs" }, "Runs"), "."));
      return;
    }
    choose();
    describe();
  }

  /** Puts the models into the lists, which stay where they are: one of them may have the focus. */
  function choose() {
    const select = (name, title) => make("div", { class: "field" }, make("label", { for: `m-${name}` }, title),
      make("select", { id: `m-${name}`, onchange: (event) => set({ [name]: event.target.value }) }));
    if (!pick.querySelector("select")) fill(pick, make("div", { class: "fields" }, select("a", "Model"), select("b", "Compare with")));
    for (const name of ["a", "b"]) {
      const isUnknown = state[name] && !all.some((m) => m.id === state[name]);
      const list = document.getElementById(`m-${name}`);
      const options = [...(isUnknown ? [[state[name], `${plain(state[name])} (not found)`]] : []), ...(name === "b" ? [["", "none"]] : []), ...all.map((m) => [m.id, plain(m.name)])];
      if (String(options) !== list.dataset.options) fill(list, options.map(([value, text], i) => make("option", { value, disabled: isUnknown && i === 0 }, text)));
      list.dataset.options = String(options);
      list.value = state[name] ?? "";
    }
  }

  async function describe() {
    const mine = ++asked;
    const ids = [state.a, state.b].filter(Boolean);
    const found = await Promise.all(ids.map((id) => ask("/api/model", { id }).catch((error) => ({ id, error, message: error.message }))));
    if (mine !== asked) return;
    // The same models are not drawn again: what was typed, and where the reader is, stay.
    if (models.length > 0 && JSON.stringify(found) === JSON.stringify(models)) {
      next();
      retry();
      return;
    }
    const typed = document.getElementById("context")?.value;
    models = found;
    fill(shown, models.map(description));
    shown.classList.toggle("side", models.length > 1);
    const readers = models.filter((m) => m.reads === "tokens" || m.reads === "labels");
    fill(compare, readers.length ? [make("h2", {}, "What comes next?"), form(), make("div", { id: "next" })] : null);
    if (typed !== undefined && readers.length) document.getElementById("context").value = typed;
    if (readers.length) next();
    tasks();
  }

  function form() {
    const input = make("input", { type: "text", id: "context", autocomplete: "off", spellcheck: "false", value: state.text ?? "" });
    return make("form", { class: "line", onsubmit: (event) => {
      event.preventDefault();
      set({ text: input.value, tokens: null });
    } }, make("label", { for: "context" }, "A context"), input, make("button", { type: "submit" }, "Predict"));
  }

  async function next() {
    const place = document.getElementById("next");
    if (!place) return;
    const mine = asked;
    if (!state.text && state.tokens === undefined) {
      fill(place, make("p", { class: "note" }, "Type the beginning of a document, or pick one of the worst contexts below."));
      return;
    }
    const asking = state.tokens !== undefined ? { tokens: state.tokens } : { text: state.text };
    const readers = models.filter((m) => m.reads === "tokens" || m.reads === "labels");
    const found = await Promise.all(readers.map((m) => ask("/api/model/predict", { id: m.id, top: 200, ...asking }).catch((error) => ({ error }))));
    const own = await ask("/api/corpus/context", asking).catch((error) => ({ error }));
    if (mine !== asked || !document.contains(place)) return;
    fill(place, distributions(readers, found, own));
  }

  function distributions(readers, found, own) {
    const good = readers.map((model, i) => ({ model, found: found[i] })).filter(({ found }) => found.kind === "distribution");
    const parts = readers.map((model, i) => {
      if (found[i].error) return make("p", { class: "problem" }, `${plain(model.name)}: ${brief(found[i].error.message)}`);
      if (found[i].kind !== "label") return null;
      const last = found[i].next.at(-1);
      return make("p", {}, `${plain(model.name)} answers: `, make("span", { class: "token" }, last?.text === null || last?.text === undefined ? `no label (${last?.answer ?? "nothing"})` : visible(last.text)));
    });
    const rows = new Map();
    const row = (text) => {
      if (!rows.has(text)) rows.set(text, { corpus: null, models: good.map(() => null) });
      return rows.get(text);
    };
    const occurs = own.is_context;
    for (const n of occurs ? own.next.slice(0, 40) : []) row(n.text).corpus = n.probability;
    good.forEach(({ found: f }, i) => f.next.forEach((n) => {
      row(n.text).models[i] = n.probability;
      if (occurs && n.corpus_probability !== null) row(n.text).corpus ??= n.corpus_probability;
    }));
    // Of a token that a model does not list, it is known that it is not likelier than those it lists.
    const least = good.map(({ found: f }) => Math.min(...f.next.map((n) => n.probability)));
    const isLoading = own.error?.setting === "corpus";
    if (good.length === 0 && !occurs) return isLoading ? [parts, make("p", { class: "note" }, brief(own.error.message))] : parts;
    const most = (r) => Math.max(r.corpus ?? 0, ...r.models);
    // The likeliest, and of those that hardly ever follow only as many as make the others comparable.
    const sorted = [...rows].sort(([, a], [, b]) => most(b) - most(a)).filter(([, r], i) => i < 5 || most(r) >= 0.001).slice(0, 40);
    const keys = [...(occurs ? ["the corpus"] : []), ...good.map(({ model }) => plain(model.name))];
    const text = own.text ?? state.text;
    const within = own.sample ? " in the sampled windows" : " in the corpus";
    return [parts,
      make("p", { class: "note" }, isLoading ? brief(own.error.message) : occurs ? `“${edges(text)}” occurs ${own.count === 1 ? "once" : `${count(own.count)} times`}${within}.` : `“${edges(text ?? "")}” is not a context ${own.sample ? "of the sampled windows" : "of the corpus"}.`),
      facts([occurs ? [`entropy${within}`, `${number(own.entropy_nats)} nats`] : null, ...good.map(({ model, found: f }) => ["entropy of the model", `${number(f.entropy_nats)} nats`, plain(model.name)])]),
      bars({
        title: "Next tokens", name: "next-tokens", heads: ["token", ...keys], keys,
        rows: sorted.map(([token, r]) => {
          const values = [...(occurs ? [r.corpus ?? 0] : []), ...r.models];
          return { name: visible(token), values, text: values.map((v, i) => (v === null ? `at most ${percent(least[i - (occurs ? 1 : 0)])}` : percent(v))) };
        }),
      })];
  }

  function description(model) {
    if (model.error) return make("section", {}, problem(model.error));
    const shape = model.config?.shape;
    const kinds = Object.entries(model.parameters_by_kind ?? {}).filter(([, n]) => n).map(([k, n]) => `${k.replaceAll("_", " ")} ${count(n)}`).join(", ");
    return make("section", {}, make("h2", {}, plain(model.name)), make("p", {}, model.describes),
      facts([
        ["parameters", count(model.parameters), kinds || null],
        shape ? ["shape", `width ${shape.d_model}, heads ${shape.n_heads}, neurons ${shape.d_mlp}${shape.blocks ? `, ${shape.blocks.n_layers} layers` : ""}`, `context ${shape.n_ctx}, vocabulary ${count(shape.d_vocab)}`] : null,
        model.preset ? ["preset", model.preset] : null,
        model.depth ? ["depth", count(model.depth), model.width ? `width ${model.width}` : null] : null,
        model.tokenizer ? ["tokenizer", plain(model.tokenizer)] : null,
      ]));
  }

  // ---- what takes longer: each is computed once, when it is asked for

  function tasks() {
    fill(more, models.map((model, i) => {
      if (model.error) return null;
      const kinds = model.reads === "vectors" ? [["incontext", "Error as a sequence is fed"]]
        : [["evaluate", "Worst contexts"], ...(model.reads === "tokens" ? [["certify", "Certificate"]] : []), ["picture", model.reads === "labels" ? "How it works" : "How it works on this corpus"]];
      return make("section", {}, make("h2", {}, models.length > 1 ? plain(model.name) : "Details"), kinds.map(([kind, title]) => {
        const place = make("div", { "data-task": `${kind} ${model.id}` });
        // A part of the second model has a name of its own in the address.
        const box = section(i === 0 ? kind : `${kind}-b`, title, place);
        box.addEventListener("toggle", () => box.open && compute(model, kind, place, true));
        return box;
      }));
    }));
  }

  /** Computes again what could not be computed, such as while the corpus was being read. */
  function retry() {
    for (const place of more.querySelectorAll("details[open] > [data-task]:has(> .problem)")) {
      const [kind, ...id] = place.dataset.task.split(" ");
      const model = models.find((m) => m.id === id.join(" "));
      if (model) compute(model, kind, place, true);
    }
  }

  async function compute(model, kind, place, start) {
    try {
      const found = start ? await tell("/api/model/task", { id: model.id, kind }) : await ask("/api/model/task", { id: model.id, kind });
      place.dataset.key = found.key;
      if (found.state === "running") {
        fill(place, progress(found.progress));
        // An event may have come before this page knew the key.
        setTimeout(() => document.contains(place) && place.querySelector(".progress") && compute(model, kind, place, false), 1000);
      } else if (found.state === "none") {
        // A server that was started again has forgotten it.
        compute(model, kind, place, true);
      } else if (found.state === "failed") fill(place, problem(found.error));
      else if (found.state === "done") fill(place, { evaluate: evaluation, certify: certificate, picture, incontext: inContext }[kind](found.result, model));
    } catch (error) {
      fill(place, problem(error));
    }
  }

  function evaluation(e) {
    return [facts([
      // An exact network gives labels, not probabilities, so it has no loss.
      (e.loss_nats ?? null) === null ? null : ["loss", e.loss_nats_per_prediction === undefined ? number(e.loss_nats) : `${number(e.loss_nats_per_prediction)} nats per prediction`, `floor ${number(e.floor_nats_per_prediction ?? e.floor_nats)}`],
      (e.gap_nats ?? null) === null ? null : ["gap", e.gap_nats_per_prediction === undefined ? number(e.gap_nats) : `${number(e.gap_nats_per_prediction)} nats per prediction`, `${number(e.gap_nats)} nats in total`],
      ["memorized", `${count(e.memorized)} of ${count(e.contexts)} contexts`, percent(e.accuracy)],
      ["distributions memorized", count(e.memorized_distribution)],
    ]), e.worst ? table({
      caption: "The contexts that contribute most to the gap", name: "worst", rows: e.worst,
      pick: (row) => set({ text: row.text, tokens: null }),
      columns: [
        { head: "context", of: (r) => edges(r.text), raw: (r) => r.text },
        { head: "count", number: true, of: (r) => count(r.count), raw: (r) => r.count },
        { head: "continues with", of: (r) => tokens(r.next.slice().sort((a, b) => b.count - a.count).slice(0, 4), r.next.length > 4) },
        { head: "model predicts", of: (r) => make("span", { class: "pair" }, make("span", { class: "token" }, visible(r.predicted_text)), ` ${percent(r.probability)}`) },
        { head: "gap, nats", number: true, of: (r) => number(r.gap_nats), raw: (r) => r.gap_nats },
      ],
    }) : null];
  }

  load();
  clean(listen("task", (event) => {
    for (const place of more.querySelectorAll("[data-task]")) {
      if (place.dataset.key !== event.key) continue;
      const [kind, ...id] = place.dataset.task.split(" ");
      const model = models.find((m) => m.id === id.join(" "));
      if (event.progress && place.querySelector(".progress")) fill(place, progress(event.progress));
      else if (model) compute(model, kind, place, false);
    }
  }));
  clean(listen("runs", load));
  clean(listen("resync", load));
  clean(listen("corpus", (event) => {
    if (event.state !== "ready") return;
    next();
    retry();
  }));
  return (given) => {
    const before = state;
    state = Object.fromEntries(given);
    if (!state.a && all.length > 0) note({ a: all[0].id });
    choose();
    const input = document.getElementById("context");
    if (input && before.text !== state.text) input.value = state.text ?? "";
    if (before.a === state.a && before.b === state.b) next();
    else describe();
  };
}

function certificate(c) {
  return facts([
    ["verdict", c.verdict, c.arithmetic],
    ["certified contexts", `${count(c.certified_contexts)} of ${count(c.contexts)}`, `${count(c.refuted_contexts)} refuted, ${count(c.undecided_contexts)} undecided`],
    ["smallest margin", `at least ${number(c.min_margin_lower_bound)}`],
    ["gap", c.gap_nats_upper_bound === null ? "no bound" : `at most ${number(c.gap_nats_upper_bound)} nats`],
    c.not_available ? ["not proven", c.not_available] : null,
  ]);
}

function picture(p) {
  if (p.picture === "steps") return steps(p);
  if (p.picture === "features") {
    return map({
      title: "What the output layer reads: one row per context", name: "features",
      note: `Every row is a context, and every column one of the numbers that the output layer turns into the logits of the next token; rows that look alike are predicted alike. ${count(p.contexts.length)} of ${count(p.of_contexts)} contexts, ${count(p.columns.length)} of ${count(p.of_features)} numbers each; blue below zero, orange above.`,
      rows: p.contexts.map(plain), columns: p.columns.map((c) => `number ${c + 1}`), values: p.values,
    });
  }
  return stages(p);
}

/** madden2024: contexts on a line, and the steps of neurons between them. */
function steps(p) {
  const order = p.contexts.map((c, i) => [c.position, i + 1]);
  const neurons = p.thresholds.map((t, i) => [t, ((i + 1) / p.thresholds.length) * p.contexts.length]);
  return [make("p", {}, `Attention maps every context to a point on one line. ${count(p.neurons)} neurons step up between neighbouring points, so that each context switches on a different set of neurons; the output weights then follow from one solve.`),
    lines({
      title: "Contexts along the direction that the neurons read", name: "construction", x: { label: "position on the line" }, y: { label: "contexts to the left" },
      note: p.contexts.length < p.of_contexts ? `${count(p.contexts.length)} of ${count(p.of_contexts)} contexts` : null,
      series: [{ name: "contexts, in order", points: order, marks: true, colour: 0 }, { name: "steps of neurons", points: neurons, dashed: false, colour: 1 }],
    }),
    make("details", {}, make("summary", {}, "Contexts in order"), table({
      caption: "From left to right", name: "construction-contexts", rows: p.contexts,
      columns: [{ head: "context", of: (r) => edges(r.text), raw: (r) => r.text }, { head: "position", number: true, of: (r) => number(r.position, 6), raw: (r) => r.position }, { head: "count", number: true, of: (r) => count(r.count), raw: (r) => r.count }],
    }))];
}

/** kajitsuka2024: the stages of the network, one after the other. */
function stages(p) {
  const widths = p.stages.map((s) => Math.max(1, s.layers * (s.times ?? 1)));
  const most = Math.max(...widths);
  // On a phone the words are below the bars.
  const isNarrow = width() < 720;
  const h = isNarrow ? 16 : 34;
  const pitch = h + (isNarrow ? 52 : 14);
  const svg = draw("svg", { viewBox: `0 0 ${width()} ${p.stages.length * pitch}`, role: "img", "aria-label": "The stages of the network", class: "chart" });
  p.stages.forEach((s, i) => {
    const y = i * pitch;
    const words = [`${s.part}: ${count(s.layers)} ${s.layers === 1 ? "layer" : "layers"}${(s.times ?? 1) > 1 ? ` × ${count(s.times)}` : ""}`, `${count(s.parameters)} non-zero parameters`];
    const w = Math.max(14, (320 * Math.log1p(widths[i])) / Math.log1p(most));
    svg.append(draw("rect", { x: 0, y, width: w, height: h, rx: 5, class: "stage" }),
      ...(isNarrow ? words.map((line, j) => draw("text", { x: 16, y: y + h + 17 + 18 * j, class: "name" }, line)) : [draw("text", { x: w + 10, y: y + 22, class: "name" }, words.join(", "))]));
    if (i + 1 < p.stages.length) svg.append(draw("line", { x1: 7, x2: 7, y1: y + h, y2: y + pitch, class: "axis" }));
  });
  return [make("p", {}, "An exact network: every stage is applied after the one above it, without rounding."),
    make("figure", { "data-figure": "stages" }, make("figcaption", {}, "Stages, by their layers"), make("div", { class: "drawing" }, svg), table({
      caption: "Stages", name: "stages", rows: p.stages,
      columns: [{ head: "part", of: (s) => String(s.part) }, { head: "layers", number: true, of: (s) => count(s.layers) }, { head: "times", number: true, of: (s) => count(s.times) },
        { head: "parameters", number: true, of: (s) => count(s.parameters), raw: (s) => s.parameters }, { head: "dense", number: true, of: (s) => count(s.parameters_dense), raw: (s) => s.parameters_dense }],
    }))];
}

function inContext(p) {
  return [make("p", {}, `${count(p.sequences)} sequences of vectors in R^${p.d}: ${p.task}.`),
    lines({
      title: "Squared error as the sequence is fed", name: "in-context", x: { label: "vectors seen" }, y: { label: "squared error", log: true },
      series: p.series.map((s) => ({ name: s.label, points: s.errors.map((e) => [e.t, e.squared_error]) })),
    })];
}
