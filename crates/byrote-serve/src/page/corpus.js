// The corpus: floor and curve, a walk through the trie of contexts, contradictions, repeats.

import { ask, listen } from "./ask.js";
import { bars, lines } from "./figure.js";
import { count, facts, fill, make, number, percent, plain, problem, progress, sections, shown, table, tokens as counted, visible } from "./make.js";

export function show(main, parameters, clean, go) {
  const head = make("div");
  const explorer = make("section", { "aria-labelledby": "explorer" });
  const more = make("div");
  fill(main, make("h1", {}, "Corpus"), head, explorer, more);
  let state = Object.fromEntries(parameters);
  let asked = 0;
  // What is drawn, as the server said it.
  let drawn = null;
  let whole = null;
  const section = sections(() => state, (change) => go((state = { ...state, ...change }), true));
  // Opened sections stay open from context to context.
  const set = (change) => go({ ...change, open: state.open });

  async function load() {
    let found;
    try {
      found = await ask("/api/corpus");
    } catch (error) {
      fill(head, problem(error));
      return;
    }
    if (found.state === "loading") fill(head, make("p", {}, "The corpus is being read."), progress(found.progress));
    if (found.state === "failed") fill(head, problem(found.error));
    // The same corpus is not drawn again: what was typed, and where the reader is, stay.
    const said = JSON.stringify(found);
    if (found.state !== "ready" || said === drawn) return;
    drawn = said;
    whole = found.summary;
    fill(head, summary(found), curve(found.summary, section));
    const typed = document.getElementById("text");
    fill(explorer, make("h2", { id: "explorer" }, "Contexts"), sampled(found.sample), typed?.form ?? form(), make("div", { id: "node" }));
    walk();
    lists();
  }

  function form() {
    const input = make("input", { type: "text", name: "text", id: "text", autocomplete: "off", spellcheck: "false", value: state.text ?? state.q ?? "" });
    const submit = (event) => {
      event.preventDefault();
      const search = event.submitter?.name === "search";
      set(search ? { q: input.value } : { text: input.value });
    };
    return make("form", { class: "line", onsubmit: submit },
      make("label", { for: "text" }, `The beginning of a ${whole.windows === undefined ? "document" : "window"}`), input,
      make("button", { type: "submit" }, "Show what follows"),
      make("button", { type: "submit", name: "search" }, "Search everywhere"));
  }

  async function walk() {
    const place = document.getElementById("node");
    if (!place) return;
    const mine = ++asked;
    const hadFocus = place.contains(document.activeElement);
    try {
      const parts = state.q ? found(await ask("/api/corpus/search", { text: state.q })) : node(await ask("/api/corpus/context", { tokens: state.tokens, text: state.tokens === undefined ? state.text : undefined }));
      if (mine !== asked) return;
      fill(place, parts);
      // Whoever walks by keyboard goes on from the token that was chosen.
      if (hadFocus) place.querySelector("[aria-current], h3")?.focus();
    } catch (error) {
      if (mine === asked) fill(place, problem(error));
    }
  }

  const to = (tokens) => set({ tokens: tokens.join(",") });

  function node(context) {
    const { tokens, texts } = context;
    const crumbs = make("nav", { "aria-label": "The context", class: "crumbs" }, make("ol", {},
      make("li", {}, make("button", { type: "button", class: "link", onclick: () => to([]), "aria-current": tokens.length === 0 ? "true" : null }, "start")),
      texts.map((text, i) => make("li", {}, make("button", { type: "button", class: "link token", onclick: () => to(tokens.slice(0, i + 1)), "aria-current": i === texts.length - 1 ? "true" : null }, visible(text))))));
    const { sample } = context;
    const many = whole.windows !== undefined;
    if (!context.occurs) {
      const nothing = sample ? "None of the sampled windows begins with this; others may." : many ? "No window begins with this." : "No document begins with this.";
      return [crumbs, make("p", {}, nothing),
        tokens.length ? make("p", {}, make("button", { type: "button", class: "link", onclick: () => set({ q: context.text }) }, "Search for contexts that end with it")) : null];
    }
    if (tokens.length && !context.is_context) {
      return [crumbs, make("p", {}, many ? "The windows end here: nothing follows." : "Documents end here or are cut off by the context window: nothing follows.")];
    }
    const what = tokens.length ? [
      ["count", count(context.count), sample ? "in the sample, followed by a token" : "occurrences followed by a token"],
      ["next tokens", count(context.next_tokens)],
      ["entropy", `${number(context.entropy_nats)} nats`],
      [sample ? "share of the sample's floor" : "share of the floor", percent(context.floor_share), `${number(context.floor_nats)} nats`],
    ] : [sample ? ["sampled windows", count(context.count), `of ${count(sample.of)}`] : [many ? "windows" : "documents", count(context.count), "that predict something"], ["first tokens", count(context.next_tokens)]];
    const rows = context.next.map((next) => ({
      name: visible(next.text),
      values: [next.probability],
      text: [`${percent(next.probability)} · ${count(next.count)}`],
      pick: next.deeper > 0 ? () => to([...tokens, next.token]) : null,
    }));
    const left = context.next_tokens - context.next.length;
    return [crumbs, facts(what),
      bars({ title: tokens.length ? "Next tokens" : "First tokens", name: "next-tokens", heads: ["token", "probability"], rows }),
      left > 0 ? make("p", { class: "note" }, `and ${count(left)} more`) : null];
  }

  function found(result) {
    const of = result.sample ? " in the sample" : "";
    return [make("h3", { tabindex: -1 }, `Contexts${of} that end with “${shown(result.text)}”: ${count(result.total)}`),
      contexts(result.contexts, "Most frequent first", "search", result.sample ? "No context of the sampled windows ends with this; others may." : "No context ends with this.", result.sample),
      result.tokens.length ? [make("h3", {}, "Tokens that contain it"), make("p", { class: "tokens" }, result.tokens.map((t) =>
        make("button", { type: "button", class: "link token", onclick: () => set({ q: t.text }) }, visible(t.text))))] : null];
  }

  function contexts(rows, caption, name, empty, sample) {
    return table({
      caption, name, rows, empty,
      pick: (row) => { to(row.tokens); document.getElementById("explorer")?.scrollIntoView(); },
      columns: [
        { head: "context", of: (row) => shown(row.text), raw: (row) => row.text },
        { head: "count", number: true, of: (row) => count(row.count), raw: (row) => row.count },
        { head: "continues with", of: (row) => counted(row.next, row.next_tokens > row.next.length) },
        { head: "floor, nats", number: true, of: (row) => number(row.floor_nats), raw: (row) => row.floor_nats },
        { head: sample ? "share of the sample's floor" : "share", number: true, of: (row) => percent(row.floor_share), raw: (row) => row.floor_share },
      ],
    });
  }

  async function lists() {
    try {
      const [costly, repeated] = await Promise.all([ask("/api/corpus/contradictions"), ask("/api/corpus/repeats")]);
      fill(more,
        make("section", {}, make("h2", {}, "Contradictions that cost most"),
          make("p", {}, `Contexts that are followed by different tokens. No model that sees only the context can avoid their loss; together they are the floor${costly.sample ? " of the sample" : ""}.`),
          sampled(costly.sample),
          contexts(costly.rows, `By their contribution to the floor${costly.sample ? " of the sample" : ""}`, "contradictions", costly.sample ? "No context is followed by different tokens in the sample." : "No context is followed by different tokens: the floor is zero.", costly.sample)),
        make("section", {}, make("h2", {}, "Repeats"), passages(whole),
          sampled(repeated.sample),
          contexts(repeated.rows, `The longest beginnings that occur more than once${repeated.sample ? " in the sample" : ""}`, "repeats", repeated.sample ? "No context occurs twice in the sample." : "No context occurs twice.", repeated.sample)));
    } catch (error) {
      drawn = null;
      fill(more, problem(error));
    }
  }

  load();
  clean(listen("corpus", (event) => {
    const bar = event.state === "loading" && head.querySelector(".progress");
    if (bar) bar.replaceWith(progress(event.progress));
    else load();
  }));
  clean(listen("resync", load));
  return (next) => {
    state = Object.fromEntries(next);
    const input = document.getElementById("text");
    if (input) input.value = state.text ?? state.q ?? "";
    walk();
  };
}

function summary(found) {
  const s = found.summary;
  return [make("p", { class: "lead" }, make("strong", {}, plain(found.title)), `, ${s.tokenizer} tokens, contexts up to ${s.n_ctx}`),
    facts([
      ["floor", `${number(s.floor_nats_per_prediction)} nats per prediction`, `${number(s.floor_bits_per_prediction)} bits; ${number(s.floor_nats, 6)} nats in total`],
      ["contexts", count(s.contexts), `${count(s.deterministic_contexts)} with a single next token`],
      ["predictions", count(s.predictions)],
      ["vocabulary", count(s.d_vocab), "tokens"],
      ["documents", count(s.documents), s.windows === undefined ? `${count(s.sequences)} distinct` : `${count(s.windows)} windows, ${count(s.distinct_windows)} distinct`],
      ["tokens", count(s.tokens), s.tokens_left_out ? `${count(s.tokens_left_out)} beyond the window left out` : null],
    ]),
    make("p", { class: "note" }, "The floor is the lowest training loss any model can reach, because identical contexts are followed by different tokens.")];
}

/** Says that what follows is counted in a part of the windows only. */
function sampled(sample) {
  if (!sample) return null;
  return make("p", { class: "note" }, `Counts below are of a sample: ${count(sample.windows)} of ${count(sample.of)} windows, drawn at random; `, make("code", {}, "--windows N"), " draws more.");
}

function curve(s, section) {
  const per = s.curve?.length
    ? [{ name: "windows with contexts up to this length", points: s.curve.map((p) => [p.n_ctx, p.floor_nats_per_prediction]) }]
    : [];
  const at = { name: "contexts of this length", points: s.by_length.filter((l) => l.floor_nats_per_prediction !== null).map((l) => [l.length, l.floor_nats_per_prediction]) };
  return [
    lines({ title: "The floor by context length", name: "floor-by-length", x: { label: "tokens of context" }, y: { label: "nats per prediction", zero: true }, series: [at, ...per] }),
    section("lengths", "All figures by length", table({
      caption: "By context length", name: "by-length", rows: s.by_length,
      columns: [
        { head: "length", number: true, of: (r) => String(r.length), raw: (r) => r.length },
        { head: "contexts", number: true, of: (r) => count(r.contexts), raw: (r) => r.contexts },
        { head: "predictions", number: true, of: (r) => count(r.predictions), raw: (r) => r.predictions },
        { head: "floor, nats", key: "floor_nats", number: true, of: (r) => number(r.floor_nats), raw: (r) => r.floor_nats },
        { head: "nats per prediction", number: true, of: (r) => number(r.floor_nats_per_prediction), raw: (r) => r.floor_nats_per_prediction },
        { head: "one next token", number: true, of: (r) => count(r.deterministic_contexts), raw: (r) => r.deterministic_contexts },
        { head: "occur once", number: true, of: (r) => count(r.once), raw: (r) => r.once },
      ],
    })),
  ];
}

/** What repeats in the text itself, if windows of it are counted. */
function passages(w) {
  return [
    w.longest_repeat ? make("p", {}, `The longest passage that occurs more than once has ${count(w.longest_repeat)} tokens.`) : null,
    w.longest_repeats?.length ? table({
      caption: "The longest passages that occur more than once, anywhere in the text", name: "passages", rows: w.longest_repeats,
      columns: [
        { head: "tokens", number: true, of: (r) => count(r.length), raw: (r) => r.length },
        { head: "text", of: (r) => (r.text.length > 300 ? `${shown(r.text.slice(0, 300))} …` : shown(r.text)), raw: (r) => r.text },
      ],
    }) : null,
  ];
}
