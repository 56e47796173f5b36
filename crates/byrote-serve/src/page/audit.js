// Audits: the text with every memorized stretch marked, the documents, the histogram of p_z, the gap by context length.

import { ask, listen } from "./ask.js";
import { bars, hint, lines } from "./figure.js";
import { base, count, facts, fill, make, number, percent, plain, problem, shown, table, visible } from "./make.js";

export function show(main, parameters, clean, go) {
  const list = make("div");
  const head = make("div");
  const text = make("section");
  const rest = make("div");
  fill(main, make("h1", {}, "Audit"), list, head, text, rest);
  let state = Object.fromEntries(parameters);
  let audit = null;
  let list_ = null;

  async function load() {
    try {
      const { audits } = await ask("/api/audits");
      if (audits.length === 0) {
        fill(list, make("p", {}, "There is no audit here. Name the directory of one on the command line, ", make("code", {}, "byrote serve audit"), ", and its text, to read it whole."));
        return;
      }
      const id = state.id ?? audits[0].id;
      if (!state.id) go((state = { ...state, id }), true);
      fill(list, audits.length > 1 ? make("nav", { "aria-label": "Audits" }, make("ul", {}, audits.map((a) =>
        make("li", {}, make("a", { href: `#/audit?id=${encodeURIComponent(a.id)}`, "aria-current": a.id === id ? "true" : null }, plain(a.name)))))) : null);
      const found = await ask("/api/audit", { id });
      // The same audit is not drawn again: what is being read stays where it is.
      if (audit && JSON.stringify(found) === JSON.stringify(audit)) return;
      audit = found;
      fill(head, summary(audit));
      documents();
      read();
    } catch (error) {
      audit = null;
      fill(head, problem(error));
      fill(text);
      fill(rest);
    }
  }

  const chosen = () => Number(state.document ?? (Array.isArray(audit.readable) ? audit.readable[0] : audit.documents[0]?.document) ?? 0);

  async function read() {
    const number_ = chosen();
    if (Array.isArray(audit.readable) && audit.readable.length === 0) {
      fill(text, make("h2", {}, "Text"), make("p", { class: "note" }, "This audit holds no text. To read it here, add the text file to the command line."));
      return;
    }
    try {
      const found = await ask("/api/audit/document", { id: audit.id, document: number_ });
      const { parts, jumpTo } = marked(found, (passage) => {
        state = { ...state, id: audit.id, document: String(number_), passage: String(passage) };
        go(state, true);
      });
      fill(text, parts);
      read.shown = number_;
      read.jump = jumpTo;
      if (state.passage) jumpTo(Number(state.passage));
    } catch (error) {
      fill(text, make("h2", {}, "Text"), problem(error));
    }
  }

  function documents() {
    const readable = (row) => audit.readable === "all" || audit.readable.includes(row.document);
    const figures = audit.windows ?? audit.document_context;
    list_ = table({
      caption: `The most memorized first${audit.all_documents > audit.documents.length ? `; ${count(audit.documents.length)} of ${count(audit.all_documents)}` : ""}`,
      name: "documents", rows: audit.documents,
      pick: (row) => { go({ id: audit.id, document: row.document }); text.scrollIntoView(); },
      chosen: (row) => row.document === chosen(),
      columns: [
        { head: "document", of: (r) => base(r.name), raw: (r) => r.name },
        { head: "text", of: (r) => (readable(r) ? "yes" : "–") },
        { head: "tokens", number: true, of: (r) => count(r.tokens), raw: (r) => r.tokens },
        { head: "copies", number: true, of: (r) => count(r.copies), raw: (r) => r.copies },
        { head: "bits per token", number: true, of: (r) => number(r.bits_per_token), raw: (r) => r.bits_per_token },
        { head: "hits", number: true, of: (r) => percent(r.token_hits), raw: (r) => r.token_hits },
        { head: "windows", number: true, of: (r) => count(r.windows), raw: (r) => r.windows },
        { head: "extractable", number: true, of: (r) => count(r.extractable), raw: (r) => r.extractable },
        { head: "covered characters", number: true, of: (r) => (r.covered_characters === null ? "–" : `${count(r.covered_characters)} of ${count(r.characters)}`), raw: (r) => r.covered_characters },
      ],
    });
    const decades = figures?.p_z_histogram ?? [];
    fill(rest,
      decades.length ? bars({
        title: "How likely windows are to be sampled (p_z)", name: "p-z", heads: ["p_z", "windows"],
        rows: bins(decades).map((d) => ({ name: d.log10_from === null ? "cannot be sampled" : `${power(d.log10_from)} to ${power(d.log10_from + 1)}`, values: [d.count], text: [count(d.count)] })),
      }) : null,
      gap(audit.gap, audit.contexts),
      make("section", {}, make("h2", {}, "Documents"), list_));
  }

  load();
  clean(listen("resync", load));
  return (next) => {
    const before = state;
    state = Object.fromEntries(next);
    if (state.id === audit?.id || (before.id === state.id && audit)) {
      // Within a document, the address of another passage only moves to it.
      if (state.passage && read.shown === chosen()) {
        read.jump(Number(state.passage));
        return;
      }
      list_?.update?.(audit.documents);
      read();
    } else {
      load();
    }
  };
}

/** The decades of a histogram from the lowest that occurs, those that are empty included. */
function bins(decades) {
  const lowest = Math.min(...decades.filter((d) => d.count > 0 && d.log10_from !== null).map((d) => d.log10_from));
  return decades.filter((d) => d.log10_from === null || d.log10_from >= lowest);
}

const power = (exponent) => (exponent >= -3 ? String(Number((10 ** exponent).toPrecision(1))) : `1e${exponent}`);

/** A threshold of p_z in the notation of the histogram. */
const threshold = (p) => (p < 1e-3 ? p.toExponential(0) : String(p));

function summary(audit) {
  const windows = audit.windows ?? audit.document_context;
  return [make("p", { class: "lead" }, make("strong", {}, base(audit.model.path)), ` (${plain(audit.model.family)}) on ${count(audit.corpus.documents)} document${audit.corpus.documents === 1 ? "" : "s"}`),
    make("ul", {}, audit.verdict.map((line) => make("li", {}, plain(line)))),
    facts([
      ["extractable windows", windows ? percent(windows.share) : "–", windows ? `${count(windows.extractable)} of ${count(windows.count)}` : null],
      ["bits per token", number(audit.bits_per_token), `${number(audit.bits_per_byte)} bits per byte`],
      ["tokens ranked first", percent(audit.token_hits)],
      audit.gap ? ["gap", `${number(audit.gap.gap_nats / audit.gap.predictions)} nats per prediction`, `contexts up to ${audit.gap.lengths}`] : null,
    ])];
}

function gap(found, contexts) {
  if (!found) return null;
  const at = (name) => found.by_length.filter((row) => row.predictions > 0).map((row) => [row.length, row[name] / row.predictions]);
  // A token that the audited text does not contain has no text in the audit, but an id.
  const token = (text, id) => make("span", { class: "token" }, text === null ? `token ${id}` : visible(text));
  return make("section", {}, make("h2", {}, "Distance to the floor"),
    // Where the floor is zero, the gap is the loss: in one figure, one line would hide the other.
    lines({
      title: "Gap by context length", name: "gap-by-length", x: { label: "tokens of context" }, y: { label: "gap, nats per prediction", zero: true },
      series: [{ name: "gap", points: at("gap_nats") }],
    }),
    lines({
      title: "Loss and floor by context length", name: "loss-by-length", x: { label: "tokens of context" }, y: { label: "nats per prediction", zero: true },
      series: [{ name: "loss of the model", points: at("loss_nats"), dashed: false }, { name: "floor", points: at("floor_nats"), dashed: true }],
    }),
    contexts?.length ? table({
      caption: "The contexts that cost the model most", name: "worst-contexts", rows: found.worst.slice(0, contexts.length).map((w, i) => ({ ...w, text: contexts[i] })),
      columns: [
        { head: "context", of: (r) => (r.text.context ? shown(r.text.context) : "(the start)"), raw: (r) => r.text.context },
        { head: "continues with", of: (r) => token(r.text.next, r.next) },
        { head: "model predicts", of: (r) => make("span", { class: "pair" }, token(r.text.predicted, r.predicted), ` ${percent(r.probability)}`) },
        { head: "count", number: true, of: (r) => count(r.count), raw: (r) => r.count },
        { head: "gap, nats", number: true, of: (r) => number(r.gap_nats), raw: (r) => r.gap_nats },
      ],
    }) : null);
}

/**
 * A document as text, and what jumps to a passage by its number. Stretches are marked by p_z; tokens say on hovering, on a tap or with the
 * arrow keys what the model thought of them. `jumped` hears the number of the passage that was jumped to.
 */
function marked(found, jumped) {
  const area = make("div", { class: "text", tabindex: "0", role: "document", "aria-label": "The text, marked by how memorized it is; the arrow keys move from token to token, n to the next extractable passage" });
  const said = make("p", { role: "status", class: "note", id: "token-said" }, "Hover over a token, tap it, or use the arrow keys in the text, for its probability, rank and entropy.");
  // Every token with the elements that hold it: more than one where a stretch ends within it.
  const tokens = [];
  for (const passage of found.passages) {
    if (area.childNodes.length) area.append("\n\n […]\n\n");
    passages(area, passage, tokens);
  }
  const at = new Map(tokens.flatMap((spans, i) => spans.map((span) => [span, i])));
  const stops = [...area.querySelectorAll(".extractable.first")];
  // The token that the arrow keys are at. Jumps begin there, and arrow keys continue from a jump.
  let current = -1;
  const tokenOf = (stop) => {
    for (let e = stop; e; e = e.nextElementSibling) if (at.has(e)) return at.get(e);
    return tokens.length - 1;
  };
  const choose = (i) => {
    for (const span of tokens[current] ?? []) span.classList.remove("current");
    current = i;
    for (const span of tokens[i] ?? []) span.classList.add("current");
  };
  const about = (i) => `“${visible(tokens[i].map((span) => span.textContent).join(""))}”: ${tokens[i][0].dataset.said.replaceAll("\n", "; ")}`;
  const jump = (step) => {
    if (stops.length === 0) return;
    const from = stops.map(tokenOf);
    // Beyond the last one is the first, and the other way round.
    const found = step > 0 ? from.findIndex((i) => i > current) : from.findLastIndex((i) => i < current);
    const next = found < 0 ? (step > 0 ? 0 : stops.length - 1) : found;
    jumpTo(next + 1);
    jumped(next + 1);
  };
  const jumpTo = (number_) => {
    if (!(number_ >= 1 && number_ <= stops.length)) return;
    area.querySelectorAll(".here").forEach((e) => e.classList.remove("here"));
    const stop = stops[number_ - 1];
    for (let e = stop; e?.classList?.contains("extractable") && (e === stop || !e.classList.contains("first")); e = e.nextSibling) e.classList.add("here");
    area.scrollTop = Math.max(0, stop.offsetTop - area.clientHeight / 3);
    choose(tokenOf(stop));
    said.textContent = `Extractable passage ${number_} of ${stops.length}. It begins with ${about(current)}`;
  };
  const tell = (event, i) => {
    hint(event, i === undefined ? null : tokens[i][0].dataset.said);
    if (i !== undefined) said.textContent = about(i);
  };
  const under = (event) => at.get(event.target.closest?.(".t"));
  area.addEventListener("pointermove", (event) => tell(event, under(event)));
  area.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hint(event, null));
  area.addEventListener("blur", (event) => hint(event, null));
  area.addEventListener("click", (event) => {
    const i = under(event);
    if (i !== undefined) choose(i);
    tell(event, i);
  });
  area.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "n") jump(1);
    if (!step || tokens.length === 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(tokens.length - 1, current + step)));
    const [span] = tokens[current];
    const [top, room] = [span.offsetTop, area.clientHeight - span.offsetHeight];
    if (top < area.scrollTop || top > area.scrollTop + room) area.scrollTop = top - room / 2;
    const seen = span.getClientRects()[0];
    tell({ clientX: seen.left, clientY: seen.bottom }, current);
  });
  const shown = found.passages.reduce((sum, p) => sum + p.stretches.reduce((n, s) => n + [...s.text].length, 0), 0);
  const cut = found.whole && shown < found.facts.characters ? ` The first ${count(shown)} of ${count(found.facts.characters)} characters.` : "";
  const key = found.steps.map((p, i) => make("li", {}, make("span", { class: `swatch s${i + 1}` }), `p_z ≥ ${threshold(p)}`));
  const parts = [make("h2", {}, "Text"),
    make("p", {}, base(found.facts.name), found.whole ? cut : " (the most memorized passages; name the text on the command line to read all of it)"),
    make("div", { class: "controls" },
      make("button", { type: "button", disabled: stops.length === 0, onclick: () => jump(-1) }, "Previous extractable passage"),
      make("button", { type: "button", disabled: stops.length === 0, onclick: () => jump(1) }, "Next extractable passage"),
      make("span", { class: "note" }, stops.length ? `${count(stops.length)} in this document` : "None in this document")),
    make("ul", { class: "legend" }, key, make("li", {}, make("span", { class: "swatch under" }), "extractable: greedy decoding gives it word for word")),
    area, said];
  return { parts, jumpTo };
}

/** Puts a passage into the text: where a stretch or a token ends, an element ends. */
function passages(area, passage, all) {
  const letters = passage.stretches.flatMap((stretch, i) => [...stretch.text].map((letter) => [letter, i]));
  const tokenAt = new Map(passage.tokens.map((token, i) => [token[0] - passage.character, i]));
  let span = null;
  let own = null;
  let until = -1;
  let wasExtractable = false;
  letters.forEach(([letter, i], at) => {
    const stretch = passage.stretches[i];
    const starts = tokenAt.has(at) && passage.tokens[tokenAt.get(at)][1] - passage.character > at;
    if (starts || own !== i || at === until || span === null) {
      if (starts) until = passage.tokens[tokenAt.get(at)][1] - passage.character;
      const isFirst = stretch.extractable && !wasExtractable;
      span = make("span", { class: `${starts || at < until ? "t" : ""} ${stretch.step ? `s${stretch.step}` : ""} ${stretch.extractable ? "extractable" : ""} ${isFirst ? "first" : ""}`.trim().replace(/ +/g, " ") });
      if (starts) {
        span.dataset.said = words(passage.tokens[tokenAt.get(at)], stretch);
        all.push([span]);
      } else if (at < until) all.at(-1).push(span);
      area.append(span);
      own = i;
      wasExtractable = stretch.extractable;
    }
    span.append(letter);
  });
  area.normalize();
}

function words([, , lnP, rank, entropy], stretch) {
  return [`probability ${percent(Math.exp(lnP))}`,
    rank === null ? null : rank === 0 ? "rank 1: the most likely token" : `rank ${count(rank + 1)}`,
    entropy === null ? null : `entropy ${number(entropy)} nats`,
    stretch.p_z_at_least ? `p_z of a window here ≥ ${threshold(Number(stretch.p_z_at_least))}` : null,
    stretch.extractable ? "extractable" : null].filter(Boolean).join("\n");
}
