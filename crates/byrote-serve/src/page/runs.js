// Runs: trainings and sweeps as they happen.

import { ask, listen, tell } from "./ask.js";
import { lines } from "./figure.js";
import { brief, count, duration, facts, fill, make, number, percent, plain, problem, sections, table } from "./make.js";
import { form } from "./training.js";

// How often figures are drawn again, at most, while points arrive, and texts that change with time, in milliseconds.
const REDRAW = 500;
const RETELL = 2500;

// Why a training ended.
const ENDS = { reached: "target gap reached", steps: "step limit", time: "time limit", stalled: "gap no longer falling", diverged: "diverged", interrupted: "interrupted", stopped: "stopped" };
const end = (stop) => ENDS[stop] ?? stop;

export function show(main, parameters, clean, go) {
  const list = make("section");
  const detail = make("section", { "aria-live": "off" });
  const start = make("section");
  fill(main, make("h1", {}, "Runs"), list, detail, start);
  let state = Object.fromEntries(parameters);
  let runs = [];
  let run = null;
  let figures = null;
  let asked = 0;
  let timer = null;
  let frame = null;
  // The id of the training that was started last.
  let begun = null;
  let drawn = 0;
  let told = 0;
  // What has changed since it was drawn, and the figures that are on the screen.
  let pointsAreStale = false;
  let textsAreStale = false;
  let rowsAreStale = false;
  const visible = new Set();
  const stale = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) visible.add(target);
      else visible.delete(target);
      if (isIntersecting && stale.has(target)) redraw();
    }
  });

  const section = sections(() => state, (change) => go((state = { ...state, ...change }), true));
  const gapOf = (r) => r.gap_nats_per_prediction ?? r.lowest_gap_nats_per_prediction;

  const choose = (change) => go({ ...change, open: state.open });

  function listed() {
    const table_ = list.querySelector(".table");
    if (table_ && runs.length) table_.update(runs);
    else fill(list, table({
      caption: "Trainings and sweeps", name: "runs", rows: runs,
      empty: "There are no runs yet. Start a training below, or name the directory of a sweep or a training on the command line.",
      pick: (row) => choose({ id: row.id }),
      chosen: (row) => row.id === state.id,
      columns: [
        { head: "run", of: (r) => plain(r.name) },
        { head: "kind", of: (r) => r.kind },
        { head: "state", of: (r) => badge(r.state), raw: (r) => r.state },
        { head: "jobs done", number: true, of: (r) => (r.kind === "training" ? "–" : `${count(r.done)} of ${count(r.jobs)}`) },
        { head: "lowest gap, nats per prediction", number: true, of: (r) => number(gapOf(r)), raw: gapOf },
        { head: "time left", number: true, of: (r) => (r.eta_seconds === null ? "–" : duration(r.eta_seconds)), raw: (r) => r.eta_seconds },
      ],
    }));
  }

  // What is heard while an answer is on its way may be newer than the answer: it is heard again afterwards.
  const heard = [];
  let answers = 0;

  async function asking(path, parameters) {
    answers += 1;
    const from = heard.length;
    try {
      return [await ask(path, parameters), () => heard.slice(from)];
    } finally {
      // Whoever asked has taken what it needs by the next turn.
      setTimeout(() => {
        answers -= 1;
        if (answers === 0) heard.length = 0;
      });
    }
  }

  async function loadList() {
    try {
      const [found, meanwhile] = await asking("/api/runs");
      runs = found.runs;
      if (!state.id && begun === null && runs.length === 1) go((state = { ...state, id: runs[0].id }), true);
      listed();
      meanwhile().forEach(apply);
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
      const [found, meanwhile] = await asking("/api/run", { id: state.id });
      if (mine !== asked) return;
      const isSame = run?.id === found.id && run.kind === found.kind && figures;
      run = found;
      run.byIndex = new Map(run.rows.map((row) => [row.index, row]));
      for (const curve of Object.values(run.curves)) begin(curve);
      run.rows.forEach(finish);
      finishTraining();
      if (isSame) repaint();
      else paint();
      meanwhile().forEach(apply);
    } catch (error) {
      // A training that has just been started has written nothing yet; its first file is heard of.
      const isStarting = state.id === begun && !runs.some((r) => r.id === begun);
      if (mine === asked) fill(detail, isStarting ? make("p", {}, "The training is starting.") : problem(error));
      run = null;
    }
  }

  /** The time of a job begins with its first report; that of the run is what the server tells. */
  function begin(curve) {
    curve.begun = curve.seconds[0]?.[0] ?? 0;
    curve.seconds = curve.seconds.map(([seconds, gap]) => [seconds - curve.begun, gap]);
  }

  /** What a job reported last is shortly before its end: its result is the end of its curves. */
  function finish({ index, steps, seconds, gap_nats_per_prediction: gap }) {
    const curve = run.curves[index];
    if (!curve) return;
    for (const [by, end] of [["steps", steps], ["seconds", seconds]]) {
      if (Number.isFinite(end) && Number.isFinite(gap)) curve[by] = [...curve[by].filter(([at]) => at < end), [end, gap]];
    }
  }

  function finishTraining() {
    if (run.kind !== "training" || run.state !== "done" || !run.curves[0]) return;
    finish({ index: 0, steps: run.step, seconds: run.seconds - run.curves[0].begun, gap_nats_per_prediction: run.gap_nats_per_prediction });
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
    const gap = { label: "gap, nats per prediction", log: true, steady: true };
    watcher.disconnect();
    visible.clear();
    stale.clear();
    figures = [
      ["steps", lines({ title: "Gap against steps", name: "gap-by-steps", x: { label: "steps", steady: true }, y: gap, series: series("steps"), latest: () => series("steps") })],
      ["seconds", lines({ title: "Gap against time", name: "gap-by-time", x: { label: run.kind === "training" ? "seconds" : "seconds of the job", steady: true }, y: gap, series: series("seconds"), latest: () => series("seconds") })],
    ];
    fill(detail, make("h2", {}, plain(run.title ?? run.name)), head, figures.map(([, figure]) => figure), one, jobs);
    for (const [, figure] of figures) watcher.observe(figure);
    heads();
    table_();
    job();
  }

  /** What is there stays, so that the focus and what was opened stay too. */
  function repaint() {
    for (const [, figure] of figures) stale.add(figure);
    redraw();
    heads();
    rowsAreStale = true;
    job();
  }

  /** What the head says: terms, values and notes. */
  function said() {
    const isTraining = run.kind === "training";
    const left = run.eta_seconds !== null && run.eta_seconds !== undefined ? `${isTraining ? "at most " : "about "}${duration(run.eta_seconds)} left` : null;
    const rows = isTraining ? [] : jobRows();
    const interrupted = rows.filter((row) => row.status === "interrupted").length;
    return [
      isTraining ? ["steps", count(run.step), run.steps ? `of at most ${count(run.steps)}` : null] : ["jobs done", `${count(run.done)} of ${count(run.jobs)}`, [run.failed ? `${count(run.failed)} failed` : null, run.running ? `${count(run.running)} running` : null].filter(Boolean).join(", ")],
      isTraining ? ["gap", `${number(run.gap_nats_per_prediction)} nats per prediction`] : ["to come", count(rows.filter((row) => row.status === "to come").length), interrupted ? `${count(interrupted)} interrupted` : null],
      isTraining ? null : ["lowest gap", run.lowest_gap_nats_per_prediction === null ? "–" : `${number(run.lowest_gap_nats_per_prediction)} nats per prediction`],
      ["time", duration(run.seconds), left],
      run.stop ? ["ended", end(run.stop)] : null,
    ];
  }

  function heads() {
    const place = document.getElementById("run-head");
    if (!place) return;
    const shape = JSON.stringify([run.id, run.state, run.controls, run.error, run.settings, run.has_model]);
    if (place.dataset.shape === shape) {
      place.querySelector(".facts").update(said());
      return;
    }
    place.dataset.shape = shape;
    const isTraining = run.kind === "training";
    const controls = (run.controls ?? []).map((action) => make("button", { type: "button", onclick: () => act(action) }, action[0].toUpperCase() + action.slice(1)));
    const hadFocus = place.querySelector(".controls")?.contains(document.activeElement);
    fill(place,
      make("div", { class: "controls", tabindex: -1 }, badge(run.state), controls, make("p", { class: "problem", role: "alert", id: "control-problem" })),
      run.error ? problem({ message: run.error }) : null,
      facts(said()),
      run.command ? make("p", { class: "note" }, make("code", {}, plain(run.command))) : null,
      run.settings ? section("settings", "Settings", make("pre", { class: "scroll" }, JSON.stringify(run.settings, null, 2))) : null,
      isTraining && run.has_model ? make("p", {}, make("a", { href: `#/models?a=${encodeURIComponent(`${run.id}/model.safetensors`)}` }, "Look at the model")) : null);
    // The control that was used has become another one.
    if (hadFocus) (place.querySelector(".controls button") ?? place.querySelector(".controls")).focus();
  }

  async function act(action) {
    try {
      await tell("/api/run/control", { id: run.id, action });
      await refresh();
    } catch (error) {
      const place = document.getElementById("control-problem");
      if (place) place.textContent = brief(error.message);
    }
  }

  /** The jobs as rows; one that has not changed is the same object. */
  function jobRows() {
    const before = run.jobRows ?? [];
    run.jobRows = run.labels.map((label, index) => {
      const row = run.byIndex.get(index);
      const last = run.curves[index]?.seconds.at(-1);
      const status = row?.status ?? (last ? (run.state === "running" ? "running" : "interrupted") : "to come");
      // The gap of a running job is in the figures; here it would change all the time.
      const old = before[index];
      if (old && old.status === status && old.source === row) return old;
      return { ...(row ?? { index, gap_nats_per_prediction: status === "interrupted" ? last[1] : null }), label, status, source: row };
    });
    return run.jobRows;
  }

  function table_() {
    const place = document.getElementById("run-jobs");
    if (!place || run.kind === "training") return;
    const table_ = place.querySelector(".table");
    if (table_) table_.update(jobRows());
    else fill(place, make("h3", {}, "Jobs"), table({
      caption: "In the order of the plan", name: "jobs", rows: jobRows(),
      pick: (row) => choose({ id: run.id, job: row.index }),
      chosen: (row) => String(row.index) === state.job,
      columns: [
        { head: "job", of: (r) => plain(r.label) },
        { head: "state", of: (r) => badge(r.status), raw: (r) => r.status },
        { head: "parameters", number: true, of: (r) => count(r.parameters), raw: (r) => r.parameters },
        { head: "steps", number: true, of: (r) => count(r.steps), raw: (r) => r.steps },
        { head: "gap, nats per prediction", number: true, of: (r) => number(r.gap_nats_per_prediction), raw: (r) => r.gap_nats_per_prediction },
        { head: "memorized", number: true, of: (r) => (r.memorized === undefined || r.memorized === null ? "–" : `${count(r.memorized)} of ${count(r.contexts)}`), raw: (r) => r.memorized },
        { head: "ended", of: (r) => (r.stop ? end(r.stop) : r.error ? `error: ${brief(r.error)}` : ""), raw: (r) => r.stop ?? r.error },
        { head: "seconds", number: true, of: (r) => number(r.seconds, 3), raw: (r) => r.seconds },
      ],
    }));
  }

  async function job() {
    const place = document.getElementById("run-job");
    if (!place) return;
    if (state.job === undefined || run.kind === "training") {
      fill(place);
      return;
    }
    const { id } = run;
    const index = state.job;
    try {
      const found = await ask("/api/run/job", { id, job: index });
      if (run?.id !== id || state.job !== index) return;
      if (!(run.curves[index]?.steps.length > 1)) {
        begin((run.curves[index] = found.curves));
        if (found.row) finish(found.row);
        pointsAreStale = true;
        redraw();
      }
      const r = found.row;
      fill(place, make("h3", {}, `Job: ${plain(found.label ?? "")}`),
        r ? facts([
          ["loss", `${number(r.loss_nats_per_prediction)} nats per prediction`, `gap ${number(r.gap_nats_per_prediction)}`],
          ["memorized", `${count(r.memorized)} of ${count(r.contexts)} contexts`, percent(r.accuracy)],
          ["ended", r.stop ? end(r.stop) : "–", `${count(r.steps)} steps, ${number(r.seconds, 3)} s`],
          r.error ? ["error", brief(r.error)] : null,
        ]) : make("p", {}, "It has no result yet."),
        found.worst?.length ? section("worst", "Contexts that contribute most to the gap", table({
          caption: "Contexts by their number in the corpus of the job", name: "job-worst", rows: found.worst,
          columns: [
            { head: "context", of: (w) => count(w.context + 1), raw: (w) => w.context + 1 },
            { head: "count", number: true, of: (w) => count(w.count), raw: (w) => w.count },
            { head: "probability of the model's choice", number: true, of: (w) => percent(w.probability), raw: (w) => w.probability },
            { head: "probability of the likeliest in the corpus", number: true, of: (w) => percent(w.top_probability), raw: (w) => w.top_probability },
            { head: "gap, nats", number: true, of: (w) => number(w.gap_nats), raw: (w) => w.gap_nats },
          ],
        })) : null,
        section("job", "Settings of the job", make("pre", { class: "scroll" }, JSON.stringify(found.settings, null, 2))));
    } catch (error) {
      fill(place, problem(error));
    }
  }

  /**
   * Draws what has changed and can be seen: with the next frame, or as soon as the last time is long enough ago. What nobody sees costs
   * the run nothing. `soon` is false for texts that only count on.
   */
  function redraw(soon = true) {
    if (document.hidden || (timer && !soon)) return;
    clearTimeout(timer);
    const wait = soon ? drawn + REDRAW : told + RETELL;
    timer = setTimeout(() => {
      frame ??= requestAnimationFrame(paintNews);
    }, Math.max(0, wait - performance.now()));
  }

  function paintNews() {
    clearTimeout(timer);
    timer = frame = null;
    if (document.hidden) return;
    const now = (drawn = performance.now());
    if (run && figures) {
      if (pointsAreStale) for (const [, figure] of figures) stale.add(figure);
      pointsAreStale = false;
      for (const [by, figure] of figures) if (visible.has(figure) && stale.delete(figure)) figure.update(series(by));
    }
    if (rowsAreStale || (textsAreStale && now >= told + RETELL - 1)) {
      if (run && figures) heads();
      if (rowsAreStale) document.querySelector("#run-jobs .table")?.update(jobRows());
      list.querySelector(".table")?.update(runs);
      rowsAreStale = textsAreStale = false;
      told = now;
    } else if (textsAreStale) redraw(false);
  }

  function hear(event) {
    if (event.new) {
      loadList();
      if (event.run === state.id) loadRun();
      return;
    }
    if (answers > 0) heard.push(event);
    apply(event);
  }

  function apply(event) {
    const at = runs.findIndex((r) => r.id === event.run);
    const own = (r) => (r.controls ? { controls: r.controls, state: r.state, stop: r.stop, error: r.error } : {});
    // What this server runs itself it knows better than its files say.
    const before = runs[at];
    if (at >= 0) runs = runs.with(at, { ...before, ...event.summary, ...own(before) });
    textsAreStale = true;
    // What has happened is told at once; what only counts on, later.
    if (at >= 0 && ["state", "done", "failed", "running"].some((key) => before[key] !== runs[at][key])) rowsAreStale = true;
    if (!run || event.run !== run.id) {
      redraw(rowsAreStale);
      return;
    }
    rowsAreStale ||= run.state !== event.summary.state;
    Object.assign(run, event.summary, own(run));
    if (event.points.length) pointsAreStale = true;
    for (const [index, step, seconds, gap] of event.points) {
      const curve = (run.curves[index] ??= { steps: [], seconds: [], begun: seconds });
      if (curve.seconds.length === 0) rowsAreStale = true;
      if (!(curve.seconds.at(-1)?.[0] >= seconds - curve.begun)) {
        curve.seconds.push([seconds - curve.begun, gap]);
        curve.steps.push([step, gap]);
      }
      if (curve.seconds.length > 1200) for (const by of ["steps", "seconds"]) curve[by] = curve[by].filter((_, i) => i % 2 === 0 || i > 1100);
    }
    for (const row of event.rows) {
      run.byIndex.set(row.index, row);
      run.curves[row.index] ??= { steps: [], seconds: [], begun: 0 };
      finish(row);
      rowsAreStale = pointsAreStale = true;
    }
    finishTraining();
    redraw(pointsAreStale || rowsAreStale);
  }

  async function refresh() {
    await loadList();
    await loadRun();
  }

  async function load() {
    const found = await loadList();
    await loadRun();
    if (found) fill(start, form(found, section, clean, (id) => {
      begun = id;
      choose({ id });
    }));
  }

  load();
  clean(listen("run", hear));
  clean(listen("runs", refresh));
  clean(listen("resync", refresh));
  const seen = () => !document.hidden && redraw();
  document.addEventListener("visibilitychange", seen);
  clean(() => document.removeEventListener("visibilitychange", seen));
  clean(() => clearTimeout(timer));
  clean(() => cancelAnimationFrame(frame));
  clean(() => watcher.disconnect());
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
