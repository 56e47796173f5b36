// The form that starts a training. Fields, help and choices are those of the specs; the server checks what is typed.

import { ask, tell } from "./ask.js";
import { count, make, problem } from "./make.js";

// What most people set; everything else is under "More settings".
const FIRST = ["preset", "n_layers", "d_model", "n_heads", "d_mlp", "optimizer", "lr", "steps", "stop_relative_gap"];

/** The form; `started` is called with the id of the run. */
export function form(runs, started) {
  const place = make("details", { class: "start" }, make("summary", {}, "Start a training"));
  let loaded = false;
  place.addEventListener("toggle", async () => {
    if (!place.open || loaded) return;
    loaded = true;
    try {
      place.append(fields(await ask("/api/run/form"), runs, started));
    } catch (error) {
      place.append(problem(error));
      loaded = false;
    }
  });
  return place;
}

function fields(found, runs, started) {
  const own = [
    { name: "name", help: "The name of its directory [default: training-N]", choices: [], default: null },
    { name: "seed", help: "The seed of the initial weights and the batches [default: 0]", choices: [], default: null },
  ];
  const all = [...own, ...found.model, ...found.training];
  const size = make("p", { class: "note", role: "status" });
  const wrong = make("p", { class: "problem", role: "alert" });
  const submit = make("button", { type: "submit", class: "main" }, "Start");
  const field = (f) => {
    const id = `f-${f.name}`;
    const input = f.choices.length
      ? make("select", { id, name: f.name, "aria-describedby": `${id}-help` }, make("option", { value: "" }, f.default ? `${f.default} (default)` : "default"), f.choices.map((choice) => make("option", { value: choice }, choice)))
      : make("input", { id, name: f.name, type: "text", autocomplete: "off", inputmode: f.name === "name" ? null : "decimal", placeholder: f.default ?? "default", "aria-describedby": `${id}-help ${id}-problem` });
    return make("div", { class: "field" }, make("label", { for: id }, make("code", {}, f.name)), input,
      make("p", { class: "problem", id: `${id}-problem`, "data-setting": f.name, role: "alert" }),
      make("p", { class: "help", id: `${id}-help` }, f.help ?? ""));
  };
  const first = all.filter((f) => FIRST.includes(f.name) || own.includes(f));
  const rest = all.filter((f) => !first.includes(f));
  const more = make("details", {}, make("summary", {}, `More settings (${rest.length})`), make("div", { class: "fields" }, rest.map(field)));
  const element = make("form", {}, 
    make("p", {}, found.corpus ? `On the corpus: ${found.corpus}. ` : "The corpus is still loading. ",
      runs.keeps_runs ? `Written into ${runs.directory}.` : "Kept only until this server ends; start it with --runs DIR to keep trainings."),
    make("div", { class: "fields" }, first.map(field)), more, size, wrong, make("div", { class: "controls" }, submit));
  const settings = () => Object.fromEntries([...new FormData(element)].filter(([, value]) => value !== ""));

  function mark(error) {
    for (const text of element.querySelectorAll("[data-setting]")) text.textContent = "";
    for (const input of element.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    wrong.textContent = "";
    if (!error) return;
    const text = element.querySelector(`[data-setting="${CSS.escape(error.setting ?? "")}"]`);
    if (!text) {
      wrong.textContent = error.message;
      return;
    }
    text.textContent = error.message.replace(`${error.setting}: `, "");
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
      mark(error);
      submit.disabled = true;
      size.textContent = "";
    }
  };
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
  check();
  return element;
}
