// The form that starts a training. Fields, help and choices are those of the specs; the server checks what is typed.

import { ask, listen, tell } from "./ask.js";
import { brief, count, fault, fill, make, plain, problem } from "./make.js";

// Settings in words; one without is its name.
const WORDS = {
  name: "Name", seed: "Seed", preset: "Model", n_layers: "Layers", d_model: "Width", n_heads: "Heads", d_head: "Width of a head", d_mlp: "Neurons",
  activation: "Activation", mixer: "Mixing of tokens", positions: "Positions", hidden: "Output of the hidden layer", attention_bias: "Biases in attention",
  scale_scores: "Scaled scores", skip: "Skip connections", output_bias: "Output bias", positions_in_attention: "Positions in attention only", bottleneck: "Shared bottleneck",
  n_kv_heads: "Heads of keys and values", norm: "Normalization", parallel: "Parallel blocks", gated: "Gated hidden layer", mlp_skip: "Skip around the hidden layer",
  mlp_bias: "Biases of the hidden layer", tied: "Tied embedding", rotary_dims: "Rotary dimensions", optimizer: "Optimizer", lr: "Learning rate", schedule: "Schedule",
  last_lr: "Final learning rate", steps: "Steps", stop_relative_gap: "Stop at gap / floor", stop_gap: "Stop at gap",
};

// What most people set; everything else is under "More settings".
const FIRST = ["preset", "n_layers", "d_model", "n_heads", "d_mlp", "optimizer", "lr", "steps", "stop_relative_gap"];

/** The form in a section; `started` is called with the id of the run. */
export function form(runs, section, clean, started) {
  const inside = make("div");
  const place = section("start", "Start a training", inside);
  place.classList.add("start");
  let loaded = false;
  place.addEventListener("toggle", async () => {
    if (!place.open || loaded) return;
    loaded = true;
    try {
      fill(inside, fields(await ask("/api/run/form"), runs, clean, started));
    } catch (error) {
      fill(inside, problem(error));
      loaded = false;
    }
  });
  return place;
}

const worded = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

function fields(found, runs, clean, started) {
  const own = [
    { name: "name", help: "The name of its directory", choices: [], default: "training-N" },
    { name: "seed", help: "The seed of the initial weights and the batches", choices: [], default: "0" },
  ];
  const all = [...own, ...found.model, ...found.training];
  const size = make("p", { class: "note", role: "status" });
  const wrong = make("p", { class: "problem", role: "alert" });
  const submit = make("button", { type: "submit", class: "main" }, "Start");
  const field = (f) => {
    const id = `f-${f.name}`;
    const help = (f.help ?? "").replaceAll("`", "").replace(/ ?\[default: ([^\]]*)\]/g, " ($1 by default)");
    // The field holds the short form of its default, the line below it the rest.
    const [short, ...rest] = (f.default ?? "").split(/, |; /);
    const input = f.choices.length
      ? make("select", { id, name: f.name, "aria-describedby": `${id}-help ${id}-problem` }, make("option", { value: "" }, short ? (short.length < 16 ? `${short} (default)` : short) : "default"), f.choices.filter((choice) => choice !== short).map((choice) => make("option", { value: choice }, choice)))
      : make("input", { id, name: f.name, type: "text", autocomplete: "off", spellcheck: "false", inputmode: f.name === "name" ? null : "decimal", placeholder: short || (f.name.startsWith("stop_") ? "not used" : ""), "aria-describedby": `${id}-help ${id}-problem` });
    return make("div", { class: "field" }, make("label", { for: id }, WORDS[f.name] ?? worded(f.name), make("code", {}, f.name)), input,
      make("p", { class: "problem", id: `${id}-problem`, "data-setting": f.name, role: "alert" }),
      make("p", { class: "help", id: `${id}-help` }, `${help}.`, rest.length ? ` Default: ${f.default}.` : ""));
  };
  const first = all.filter((f) => FIRST.includes(f.name) || own.includes(f));
  const rest = all.filter((f) => !first.includes(f));
  const more = make("details", {}, make("summary", {}, `More settings (${rest.length})`), make("div", { class: "fields" }, rest.map(field)));
  const corpus = make("span");
  const element = make("form", {},
    make("p", {}, corpus, " ", runs.keeps_runs ? ["It is written to ", make("code", {}, plain(runs.directory)), "."] : "It is kept until this server ends; to keep trainings longer, start the server with --runs DIR."),
    make("div", { class: "fields" }, first.map(field)), more, size, wrong, make("div", { class: "controls" }, submit));
  const settings = () => Object.fromEntries([...new FormData(element)].filter(([, value]) => value !== ""));

  function mark(error) {
    for (const text of element.querySelectorAll("[data-setting]")) text.textContent = "";
    for (const input of element.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    wrong.textContent = "";
    if (!error) return;
    const text = element.querySelector(`[data-setting="${CSS.escape(error.setting ?? "")}"]`);
    if (!text) {
      wrong.textContent = brief(error.message);
      return;
    }
    text.textContent = fault(error);
    const input = element.querySelector(`[name="${CSS.escape(error.setting)}"]`);
    input?.setAttribute("aria-invalid", "true");
    if (more.contains(text)) more.open = true;
  }

  let asked = 0;
  let timer = null;
  const check = async () => {
    const mine = ++asked;
    try {
      const found = await tell("/api/run/check", settings());
      if (mine !== asked) return;
      mark(null);
      submit.disabled = false;
      size.textContent = `${count(found.parameters)} parameters for ${count(found.contexts)} contexts, at most ${count(found.steps)} steps`;
    } catch (error) {
      if (mine !== asked) return;
      submit.disabled = true;
      const isWaiting = error.setting === "corpus" && (await reading());
      mark(isWaiting ? null : error);
      size.textContent = isWaiting ? "The settings are checked when the corpus has been read." : "";
    }
  };
  /** Says what it trains on; whether that is still being read. */
  const reading = async () => {
    const { state, title } = await ask("/api/corpus").catch(() => ({}));
    corpus.textContent = state === "loading" ? "The corpus is still being read." : title ? `It trains on the corpus: ${plain(title)}.` : "The corpus cannot be read.";
    return state === "loading";
  };
  const again = () => {
    reading();
    check();
  };
  clean(listen("corpus", (event) => event.state !== "loading" && again()));
  clean(listen("resync", again));
  element.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, 150);
  });
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const { id } = await tell("/api/run/start", settings());
      mark(null);
      started(id);
    } catch (error) {
      mark(error);
    }
    submit.disabled = false;
  });
  again();
  return element;
}
