// Runs: trainings and sweeps as they happen.

import { ask, listen, tell } from "./ask.js";
import { lines } from "./figure.js";
import { count, duration, facts, fill, make, number, percent, plain, problem, table } from "./make.js";
import { form } from "./training.js";

// How often a figure is drawn again, at most, while points arrive.
const REDRAW = 900;

export function show(main, parameters, clean, go) {
  const list = make("section");
  const detail = make("section", { "aria-live": "off" });
  const start = make("section");
  fill(main, make("h1", {}, "Runs"), list, detail, start);
  let state = Object.fromEntries(parameters);
  let run = null;
  let figures = null;
  let asked = 0;
  let timer = null;
  let isNew = false;
  let drawn = 0;
  let tableIsStale = false;
  const stale = new Set();

  async function loadList() {
    try {
      const found = await ask("/api/runs");
      if (!state.id && !isNew && found.runs.length === 1) state.id = found.runs[0].id;
      fill(list, table({
        caption: "Trainings and sweeps", name: "runs", rows: found.runs,
        empty: "There are no runs yet. Start a training below, or name the directory of a sweep or a training on the command line.",
        pick: (row) => go({ id: row.id }),
        chosen: (row) => row.id === state.id,
        columns: [
          { head: "run", of: (r) => plain(r.name) },
          { head: "kind", of: (r) => r.kind },
          { head: "state", of: (r) => badge(r.state), raw: (r) => r.state },
          { head: "jobs done", number: true, of: (r) => (r.kind === "training" ? "–" : `${count(r.done)} of ${count(r.jobs)}`) },
          { head: "gap, nats per prediction", number: true, of: (r) => number(r.gap_nats_per_prediction), raw: (r) => r.gap_nats_per_prediction },
          { head: "time left", number: true, of: (r) => (r.eta_seconds === null ? "–" : duration(r.eta_seconds)), raw: (r) => r.eta_seconds },
        ],
      }));
      return found;
    } catch (error) {
      fill(list, problem(error));
      return null;
    }
  }

  async function loadRun() {
    if (!state.id) {
      fill(detail);
      run = null;
      return;
    }
    const mine = ++asked;
    try {
      const found = await ask("/api/run", { id: state.id });
      if (mine !== asked) return;
      run = found;
      run.byIndex = new Map(run.rows.map((row) => [row.index, row]));
      figures = null;
      paint();
    } catch (error) {
      if (mine === asked) fill(detail, problem(error));
      run = null;
    }
  }

  /** The series of the figures: one per job that has a curve. */
  function series(by) {
    return Object.entries(run.curves).map(([job, curves]) => ({
      name: run.labels[Number(job)] ?? `job ${Number(job) + 1}`, colour: Number(job), points: curves[by], dots: false,
    })).filter((s) => s.points.length > 0);
  }

  function paint() {
    const head = make("div", { id: "run-head" });
    const jobs = make("div", { id: "run-jobs" });
    const one = make("div", { id: "run-job" });
    const gap = { label: "gap, nats per prediction", log: true };
    figures = [
      ["steps", lines({ title: "Gap against steps", name: "gap-by-steps", x: { label: "steps", log: false }, y: gap, series: series("steps") })],
      ["seconds", lines({ title: "Gap against time", name: "gap-by-time", x: { label: "seconds" }, y: gap, series: series("seconds") })],
    ];
    fill(detail, make("h2", {}, plain(run.title ?? run.name)), head, figures.map(([, figure]) => figure), one, jobs);
    heads();
    table_();
    job();
  }

  function heads() {
    const place = document.getElementById("run-head");
    if (!place) return;
    const isTraining = run.kind === "training";
    const controls = (run.controls ?? []).map((action) => make("button", { type: "button", onclick: () => act(action) }, action[0].toUpperCase() + action.slice(1)));
    fill(place,
      make("div", { class: "controls" }, badge(run.state), controls, make("p", { class: "problem", role: "alert", id: "control-problem" })),
      run.error ? problem({ message: run.error }) : null,
      facts([
        isTraining ? ["steps", count(run.step), run.steps ? `of at most ${count(run.steps)}` : null] : ["jobs done", `${count(run.done)} of ${count(run.jobs)}`, [run.failed ? `${count(run.failed)} failed` : null, run.running ? `${count(run.running)} running` : null].filter(Boolean).join(", ")],
        isTraining ? ["gap", `${number(run.gap_nats_per_prediction)} nats per prediction`] : ["to come", count(Math.max(0, run.jobs - run.done - run.failed - run.running))],
        ["time", duration(run.seconds), run.eta_seconds !== null && run.eta_seconds !== undefined ? `${isTraining ? "at most " : "about "}${duration(run.eta_seconds)} left` : null],
        run.stop ? ["ended", run.stop] : null,
        run.command ? ["command", make("code", {}, run.command)] : null,
      ]),
      run.settings ? make("details", {}, make("summary", {}, "Settings"), make("pre", { class: "scroll" }, JSON.stringify(run.settings, null, 2))) : null,
      isTraining && ["done", "paused", "not running"].includes(run.state) ? make("p", {}, make("a", { href: `#/models?a=${encodeURIComponent(`${run.id}/model.safetensors`)}` }, "Look at the model")) : null);
  }

  async function act(action) {
    try {
      await tell("/api/run/control", { id: run.id, action });
      await refresh();
    } catch (error) {
      const place = document.getElementById("control-problem");
      if (place) place.textContent = error.message;
    }
  }

  function table_() {
    const place = document.getElementById("run-jobs");
    if (!place || run.kind === "training") return;
    const rows = run.labels.map((label, index) => {
      const row = run.byIndex.get(index);
      const points = run.curves[index]?.seconds ?? [];
      const last = points.at(-1);
      return row ? { ...row, label } : { index, label, status: last ? (run.state === "running" ? "running" : "interrupted") : "to come", gap_nats_per_prediction: last?.[1] ?? null };
    });
    const scrolled = place.querySelector(".scroll")?.scrollLeft ?? 0;
    fill(place, make("h3", {}, "Jobs"), table({
      caption: "In the order of the plan", name: "jobs", rows,
      pick: (row) => go({ id: run.id, job: row.index }),
      chosen: (row) => String(row.index) === state.job,
      columns: [
        { head: "job", of: (r) => plain(r.label) },
        { head: "state", of: (r) => badge(r.status), raw: (r) => r.status },
        { head: "parameters", number: true, of: (r) => count(r.parameters), raw: (r) => r.parameters },
        { head: "steps", number: true, of: (r) => count(r.steps), raw: (r) => r.steps },
        { head: "gap, nats per prediction", number: true, of: (r) => number(r.gap_nats_per_prediction), raw: (r) => r.gap_nats_per_prediction },
        { head: "memorized", number: true, of: (r) => (r.memorized === undefined || r.memorized === null ? "–" : `${count(r.memorized)} of ${count(r.contexts)}`), raw: (r) => r.memorized },
        { head: "ended", of: (r) => r.stop ?? (r.error ? `error: ${r.error}` : "") },
        { head: "seconds", number: true, of: (r) => number(r.seconds, 3), raw: (r) => r.seconds },
      ],
    }));
    const scroll = place.querySelector(".scroll");
    if (scroll) scroll.scrollLeft = scrolled;
  }

  async function job() {
    const place = document.getElementById("run-job");
    if (!place) return;
    if (state.job === undefined || run.kind === "training") {
      fill(place);
      return;
    }
    try {
      const found = await ask("/api/run/job", { id: run.id, job: state.job });
      if (!run.curves[state.job]) {
        run.curves[state.job] = found.curves;
        redraw();
      }
      const r = found.row;
      fill(place, make("h3", {}, `Job: ${plain(found.label ?? "")}`),
        r ? facts([
          ["loss", `${number(r.loss_nats_per_prediction)} nats per prediction`, `gap ${number(r.gap_nats_per_prediction)}`],
          ["memorized", `${count(r.memorized)} of ${count(r.contexts)} contexts`, percent(r.accuracy)],
          ["ended", r.stop ?? "–", `${count(r.steps)} steps, ${number(r.seconds, 3)} s`],
          r.error ? ["error", r.error] : null,
        ]) : make("p", {}, "It has no result yet."),
        make("details", {}, make("summary", {}, "Settings"), make("pre", { class: "scroll" }, JSON.stringify(found.settings, null, 2))));
    } catch (error) {
      fill(place, problem(error));
    }
  }

  /** Draws again what can be seen, at once or as soon as the last time is long enough ago. What nobody sees costs the run nothing. */
  function redraw() {
    if (timer || !figures) return;
    timer = setTimeout(() => {
      timer = null;
      if (document.hidden || !run || !figures) return;
      drawn = Date.now();
      for (const [by, figure] of figures) {
        const { top, bottom } = figure.getBoundingClientRect();
        if (bottom > 0 && top < innerHeight) figure.update(series(by));
        else stale.add(by);
      }
      heads();
      if (tableIsStale) table_();
      tableIsStale = false;
    }, Math.max(0, drawn + REDRAW - Date.now()));
  }

  function hear(event) {
    if (event.new) {
      loadList();
      if (event.run === state.id) loadRun();
      return;
    }
    if (!run || event.run !== run.id) return;
    const own = { controls: run.controls, state: run.state, stop: run.stop, error: run.error };
    Object.assign(run, event.summary);
    // What this server runs itself it knows better than its files say.
    if (own.controls) Object.assign(run, own);
    for (const [index, step, seconds, gap] of event.points) {
      const curve = (run.curves[index] ??= { steps: [], seconds: [] });
      if (curve.seconds.length === 0) tableIsStale = true;
      if (!(curve.seconds.at(-1)?.[0] >= seconds)) {
        curve.seconds.push([seconds, gap]);
        curve.steps.push([step, gap]);
      }
      if (curve.seconds.length > 1200) for (const by of ["steps", "seconds"]) curve[by] = curve[by].filter((_, i) => i % 2 === 0 || i > 1100);
    }
    for (const row of event.rows) {
      run.byIndex.set(row.index, row);
      detail.dataset.rows = String(run.byIndex.size);
      tableIsStale = true;
    }
    detail.dataset.heard = String(Date.now());
    redraw();
  }

  async function refresh() {
    await Promise.all([loadList(), loadRun()]);
  }

  async function begin() {
    const found = await loadList();
    await loadRun();
    if (found) fill(start, form(found, (id) => {
      isNew = true;
      go({ id });
    }));
  }

  begin();
  clean(listen("run", hear));
  clean(listen("runs", refresh));
  clean(listen("resync", refresh));
  const seen = () => !document.hidden && redraw();
  const scrolled = () => {
    if (stale.size) redraw();
    stale.clear();
  };
  document.addEventListener("visibilitychange", seen);
  document.addEventListener("scroll", scrolled, { passive: true });
  clean(() => document.removeEventListener("visibilitychange", seen));
  clean(() => document.removeEventListener("scroll", scrolled));
  clean(() => clearTimeout(timer));
  return (next) => {
    const before = state;
    state = Object.fromEntries(next);
    if (before.id === state.id && run) {
      table_();
      job();
    } else {
      refresh();
    }
  };
}

export function badge(state) {
  return make("span", { class: `state ${["running", "failed"].includes(state) ? state : ""}` }, state);
}
