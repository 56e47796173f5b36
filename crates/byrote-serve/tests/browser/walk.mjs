// Walks through every view in Chromium, and compares what it shows with the JSON of the program.
// Usage: node walk.mjs SETTINGS.json, which holds {page, chromium, address, shots, expected, sweep, restart}.
// Views without an entry in `expected` are left out, except that an empty one must say what to do.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
// Numbers are formatted by the page's own functions, so that texts can be compared.
const { count, number, percent, shown } = await import(pathToFileURL(join(settings.page, "make.js")));
const { chromium } = await import("playwright-core");
const { address, expected, shots } = settings;

const browser = await chromium.launch({ executablePath: settings.chromium, args: ["--no-sandbox", "--disable-gpu"] });
const problems = [];
let checks = 0;

function check(holds, what) {
  checks += 1;
  if (!holds) problems.push(what);
}

async function open(width, dark = false) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? "dark" : "light", acceptDownloads: true });
  return watched(await context.newPage());
}

function watched(page) {
  page.expectedProblems = 0;
  page.on("console", (message) => {
    if (message.type() === "error" && !(page.expectedProblems && /Failed to load resource|ERR_/.test(message.text()))) problems.push(`console at ${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`error at ${page.url()}: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !url.startsWith("data:") && !url.startsWith("blob:")) problems.push(`a request to ${url}`);
  });
  page.setDefaultTimeout(60000);
  return page;
}

const to = (page, hash) => page.goto(`${address}${hash}`);
const text = (page, selector) => page.locator(selector).innerText();
const focused = (page) => page.evaluate(() => document.activeElement.textContent);
/** What the page asks the server for, asked by the page. */
const api = (page, path) => page.evaluate(async (path) => (await fetch(path)).json(), path);

async function shot(page, name) {
  if (!shots) return;
  await page.waitForTimeout(300);
  writeFileSync(join(shots, `${name}.png`), await page.screenshot({ fullPage: true }));
}

/** What must hold of every view: it fits, every control has a name and can be reached by keyboard, every figure has its numbers. */
async function fits(page, where) {
  const found = await page.evaluate(() => {
    const seen = (e) => e.checkVisibility();
    const controls = [...document.querySelectorAll("a[href], button, input, select, summary")].filter(seen);
    const named = (e) => e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length || e.title;
    const figures = [...document.querySelectorAll("figure")];
    return {
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      unnamed: controls.filter((e) => !named(e)).length,
      unreachable: controls.filter((e) => !e.disabled && e.tabIndex < 0).length,
      scrolling: [...document.querySelectorAll(".scroll")].filter((e) => seen(e) && e.scrollWidth > e.clientWidth && e.tabIndex < 0).length,
      bare: figures.filter((e) => !e.querySelector("table, details") || ![...e.querySelectorAll("button")].some((b) => b.textContent.startsWith("CSV"))).map((e) => e.dataset.figure),
      untitled: [...document.querySelectorAll("svg[role=img]")].filter((e) => !e.getAttribute("aria-label")).length,
      paths: /(^|[\s(“])\/[\w.-]+\/[\w.-]+/.exec(document.querySelector("main").innerText)?.[0] ?? null,
    };
  });
  check(found.wide <= 1, `${where}: the page is ${found.wide} pixels too wide`);
  check(found.unnamed === 0, `${where}: ${found.unnamed} controls have no name`);
  check(found.unreachable === 0 && found.scrolling === 0, `${where}: ${found.unreachable + found.scrolling} things cannot be reached by keyboard`);
  check(found.bare.length === 0, `${where}: figures without table or CSV: ${found.bare}`);
  check(found.untitled === 0, `${where}: ${found.untitled} drawings have no title`);
  check(found.paths === null, `${where}: shows the path ${found.paths}`);
}

async function saved(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).first().click()]);
  return readFileSync(await download.path(), "utf8");
}

async function corpus(page) {
  await to(page, "#/corpus");
  await page.getByText("nats per prediction", { exact: false }).first().waitFor();
  await page.getByText("Contradictions that cost most").waitFor();
  const facts = await text(page, ".facts >> nth=0");
  const c = expected.corpus;
  for (const shown of [`${number(c.floor_nats_per_prediction)} nats per prediction`, count(c.contexts), count(c.predictions), count(c.d_vocab)]) check(facts.includes(shown), `corpus: ${shown} is not in ${facts}`);
  const table = await saved(page, "CSV (floor-by-length.csv)");
  const rows = table.trim().split("\n").slice(1).map((line) => line.split(","));
  // Of windows, the curve is drawn as well, and what comes from a part of them says so.
  const { sample } = await api(page, "/api/corpus");
  if (c.windows !== undefined) {
    check(facts.includes(`${count(c.windows)} windows`), `corpus: ${count(c.windows)} windows are not in ${facts}`);
    const drawn = rows.filter((row) => row[0].startsWith("windows")).map((row) => [Number(row[1]), Number(row[2])]);
    check(JSON.stringify(drawn) === JSON.stringify(c.curve.map((p) => [p.n_ctx, p.floor_nats_per_prediction])), "corpus: the curve of the windows differs");
  }
  const said = await page.getByText("Counts below are of a sample").count();
  check(sample ? said > 0 && (await text(page, "main")).includes(`${count(sample.windows)} of ${count(sample.of)} windows`) : said === 0, "corpus: the sample is not described");
  const own = c.by_length.filter((l) => l.floor_nats_per_prediction !== null);
  check(own.every((l, i) => Number(rows[i][1]) === l.length && Number(rows[i][2]) === l.floor_nats_per_prediction), "corpus: the CSV of the curve differs");
  // Type a context, walk deeper, reload, search.
  await page.getByLabel("The beginning of a").fill(expected.word);
  await page.getByRole("button", { name: "Show what follows" }).click();
  // The first crumb is the start; the word may have several tokens.
  const crumbs = page.locator(".crumbs li");
  const first = page.locator("#node .bars li button").first();
  await crumbs.nth(1).waitFor();
  const depth = await crumbs.count();
  const next = await first.innerText();
  await first.press("Enter");
  await crumbs.nth(depth).waitFor();
  await page.waitForFunction(() => document.activeElement?.closest(".crumbs"));
  check((await focused(page)) === next, "corpus: the focus is not on the token that was chosen");
  check((await crumbs.nth(depth).innerText()).includes(next), "corpus: walking deeper shows another token");
  const node = await text(page, "#node");
  await page.reload();
  await crumbs.nth(depth).waitFor();
  check((await text(page, "#node")) === node, "corpus: a reloaded address shows something else");
  await page.goBack();
  await crumbs.nth(depth).waitFor({ state: "detached" });
  await page.getByLabel("The beginning of a").fill(expected.word);
  await page.getByRole("button", { name: "Search everywhere" }).click();
  await page.getByRole("heading", { name: `that end with “${shown(expected.word)}”` }).waitFor();
  // What is open is in the address.
  await page.getByText("All figures by length").click();
  await page.waitForFunction(() => location.hash.includes("open=lengths"));
  await page.reload();
  await page.locator("details[open]", { hasText: "All figures by length" }).waitFor();
  await page.getByLabel("The beginning of a").fill("xyzzy");
  await page.getByRole("button", { name: "Show what follows" }).click();
  await page.locator("#node .problem, #node p", { hasText: /xyzzy|never seen the token|No (document|window) begins|None of the sampled windows begins/ }).first().waitFor();
}

async function shapes(page) {
  await to(page, "#/shapes?d_model=16&n_heads=4&d_mlp=512");
  await page.getByText("Bounds that apply").first().waitFor();
  const facts = await text(page, "main .facts");
  check(facts.includes(count(expected.bounds.parameters)), `shapes: ${count(expected.bounds.parameters)} is not in ${facts}`);
  check((await page.locator("#verdict").textContent()) === `${expected.bounds.verdict.sentence}.`, "shapes: the answer is not that of byrote bounds");
  const bounds = await page.locator("[aria-label^='Bounds that apply'] tbody tr").count();
  check(bounds === expected.bounds.rows.filter((row) => row.applies).length, `shapes: ${bounds} bounds apply`);
  const slider = page.locator("#s-d_mlp");
  await slider.focus();
  await slider.press("ArrowRight");
  await page.waitForFunction((before) => !document.querySelector("main .facts").innerText.includes(before), count(expected.bounds.parameters));
  check(page.url().includes("d_mlp="), "shapes: the shape is not in the address");
  const moved = await text(page, "main .facts");
  await page.reload();
  await page.getByText("Bounds that apply").first().waitFor();
  check((await text(page, "main .facts")) === moved, "shapes: a reloaded address shows something else");
  await shot(page, "shapes-moved-1200");
  await page.getByLabel("width, exactly").fill("0");
  await page.getByLabel("width, exactly").blur();
  await page.locator("[data-setting=d_model]:not(:empty)").waitFor();
  for (const wrong of ["0", "-5", ""]) {
    await page.getByLabel("layers, exactly").fill(wrong);
    await page.getByLabel("layers, exactly").blur();
    await page.locator("[data-setting=n_layers]", { hasText: wrong ? `(got ${wrong})` : "must be a whole number" }).waitFor();
  }
}

/** The rows of a CSV file without quotes, by its heads. */
function rowsOf(file) {
  const [heads, ...lines] = readFileSync(file, "utf8").trim().split("\n").map((line) => line.split(","));
  return lines.map((line) => Object.fromEntries(heads.map((head, i) => [head, line[i]])));
}

/** A sweep of another process: it appears, its results arrive by themselves, and then it is interrupted half way. */
async function sweep(page) {
  const { program, args, cwd, id, results, jobs } = settings.sweep;
  await to(page, "#/runs");
  await page.locator("main h1").waitFor();
  const running = spawn(program, args, { cwd, stdio: "ignore" });
  const ended = new Promise((resolve) => running.on("exit", resolve));
  await page.getByRole("button", { name: id, exact: true }).click();
  await page.locator("#run-head .state", { hasText: "running" }).waitFor();
  await page.locator("[data-figure=gap-by-steps] path.line").first().waitFor({ state: "attached" });
  await page.locator("#run-jobs tbody .state", { hasText: "done" }).nth(1).waitFor();
  check(await page.locator("#run-jobs tbody .state", { hasText: "to come" }).count() > 0, "runs: no job is to come");
  running.kill("SIGINT");
  check((await ended) === 130, "runs: the sweep was not interrupted");
  // Nobody reloads: the page hears that the process is gone.
  await page.locator("#run-head .state", { hasText: "not running" }).waitFor();
  // A figure that was watched ends where the jobs did, as it does after a reload.
  await page.locator("#run-jobs tbody .state", { hasText: "interrupted" }).first().waitFor();
  const run = await api(page, `/api/run?id=${id}`);
  const over = run.rows.filter((row) => row.status === "done");
  for (const when of ["live", "reloaded"]) {
    if (when === "reloaded") {
      await page.reload();
      await page.locator("#run-jobs table").waitFor();
    }
    for (const [figure, end] of [["gap-by-steps", "steps"], ["gap-by-time", "seconds"]]) {
      const points = (await saved(page, `CSV (${figure}.csv)`)).trim().split("\n").slice(1);
      for (const row of over) {
        const last = points.findLast((line) => line.startsWith(`"${run.labels[row.index]}",`) || line.startsWith(`${run.labels[row.index]},`));
        const found = last?.split(",").slice(-2).map(Number);
        check(found?.[0] === row[end] && found[1] === row.gap_nats_per_prediction, `runs: ${when}, the curve of ${figure} ends at ${found}, and the job at ${row[end]}, ${row.gap_nats_per_prediction}`);
      }
    }
  }
  // What the page heard meanwhile is what a page finds that is opened now, and what the program has written.
  const rows = existsSync(results) ? rowsOf(results) : [];
  const done = rows.filter((row) => row.status === "done");
  check(done.length >= 2 && done.length < jobs, `runs: ${done.length} of ${jobs} jobs are done`);
  await page.locator("#run-jobs tbody .state", { hasText: "done" }).nth(done.length - 1).waitFor();
  for (const reload of [false, true]) {
    if (reload) await page.reload();
    await page.locator("#run-jobs table").waitFor();
    const head = await text(page, "#run-head");
    check(head.includes(`${count(done.length)} of ${count(jobs)}`), `runs: ${done.length} of ${jobs} is not in ${head}`);
    const shown = await page.locator("#run-jobs tbody tr").count();
    check(shown === jobs, `runs: ${shown} rows for ${jobs} jobs`);
    const table = await text(page, "#run-jobs table");
    for (const row of done) {
      const gap = number(Number(row.gap_nats_per_prediction));
      check(table.includes(gap) && table.includes(count(row.parameters)) && table.includes(`${count(row.memorized)} of ${count(row.contexts)}`), `runs: ${JSON.stringify(row)} is not in the table`);
    }
    const lowest = number(Math.min(...done.map((row) => Number(row.gap_nats_per_prediction))));
    check(head.includes(lowest), `runs: the lowest gap ${lowest} is not in ${head}`);
    check((await page.locator("main table").first().innerText()).includes(lowest), "runs: the lowest gap is not in the list");
  }
  check((await text(page, "#run-head .state")) === "not running", "runs: an interrupted sweep is said to run");
  check((await page.locator("[data-figure=gap-by-steps] path.line").count()) >= done.length, "runs: a curve is missing");
  const curves = (await saved(page, "CSV (gap-by-steps.csv)")).trim().split("\n").slice(1);
  check(curves.length > done.length, "runs: the curves have no points");
  await page.locator("#run-jobs tbody button").first().press("Enter");
  await page.locator("#run-job h3").waitFor();
  check((await focused(page)) === run.labels[0], "runs: the focus is not on the job that was chosen");
  check(page.url().includes("job=0"), "runs: the job is not in the address");
}

async function training(page) {
  // Another tab in which somebody types meanwhile.
  const other = expected.models && watched(await page.context().newPage());
  if (other) {
    await to(other, `#/models?a=${encodeURIComponent(expected.models.a)}`);
    await other.locator("#context").fill("half a sen");
    await page.bringToFront();
  }
  await to(page, "#/runs");
  await page.getByText("Start a training", { exact: true }).click();
  await page.getByRole("status").filter({ hasText: "parameters for" }).waitFor();
  await page.locator("#f-lr").fill("-3");
  await page.locator("[data-setting=lr]:not(:empty)").waitFor();
  check(await page.getByRole("button", { name: "Start", exact: true }).isDisabled(), "runs: a wrong setting can be started");
  await page.locator("#f-lr").fill("");
  await page.locator("[data-setting=lr]:empty").waitFor({ state: "attached" });
  await page.locator("#f-name").fill("from-the-page");
  await page.locator("#f-d_mlp").fill("32");
  await page.locator("#f-optimizer").selectOption("adam");
  await page.locator("#f-steps").fill("100000000");
  await page.locator("#f-stop_relative_gap").fill("1e-12");
  // However slow the browser is, the training still runs when it is paused: it does not stop where the loss no longer falls.
  await page.getByText(/^More settings/).click();
  await page.locator("#f-stall").fill("0");
  // The answer to what was typed last: a button that was enabled before says nothing.
  await page.getByRole("status").filter({ hasText: "at most 100,000,000 steps" }).waitFor();
  await shot(page, "form-1200");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  // A figure is drawn when it is seen.
  await page.locator("[data-figure=gap-by-time]").scrollIntoViewIfNeeded();
  await page.locator("[data-figure=gap-by-time] path.line").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator("#run-head .state", { hasText: "done" }).waitFor();
  if (other) {
    await other.locator("#m-b option", { hasText: "from-the-page" }).first().waitFor({ state: "attached" });
    check((await other.locator("#context").inputValue()) === "half a sen", "models: what was typed is gone when a training starts");
    await other.close();
  }
  await page.getByText("Look at the model").click();
  await page.getByText("What comes next?").waitFor();
}

async function models(page) {
  const { a, b, text: context, next, evaluation, certificate } = expected.models;
  const open = evaluation ? "&open=evaluate,certify,picture" : "";
  await to(page, `#/models?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b ?? "")}&text=${encodeURIComponent(context)}${open}`);
  await page.locator("#next .bars li").first().waitFor();
  const bars = await text(page, "#next");
  for (const token of next.slice(0, 3)) check(bars.includes(percent(token.probability)), `models: ${percent(token.probability)} is not in ${bars}`);
  if (!evaluation) return;
  // The two models are computed one after the other, in either order.
  const [memorized, certified] = [`${count(evaluation.memorized)} of ${count(evaluation.contexts)} contexts`, `${count(certificate.certified_contexts)} of ${count(certificate.contexts)}`];
  await page.locator("[data-task^='evaluate']", { hasText: memorized }).first().waitFor();
  await page.getByText("The contexts that contribute most to the gap").first().waitFor();
  await page.locator("[data-task^='certify']", { hasText: certified }).first().waitFor();
  await page.locator("[data-figure=construction], [data-figure=features], [data-figure=stages]").first().waitFor();
}

/** A network that is evaluated exactly, and one that learns in context: their pictures show the program's numbers. */
async function others(page) {
  const { exact, evaluation, stages, network, errors } = expected.others;
  await to(page, `#/models?a=${encodeURIComponent(exact)}&open=evaluate,picture`);
  await page.locator("[data-task^='evaluate']", { hasText: `${count(evaluation.memorized)} of ${count(evaluation.contexts)} contexts` }).waitFor();
  await page.locator("[data-figure=stages] svg").waitFor();
  const rows = await page.locator("[data-figure=stages] tbody tr").count();
  check(rows === stages, `models: ${rows} stages instead of ${stages}`);
  await fits(page, "an exact network at 1200");
  await to(page, `#/models?a=${encodeURIComponent(network)}&open=incontext`);
  await page.locator("[data-figure=in-context] path.line").first().waitFor({ state: "attached" });
  const lines = (await saved(page, "CSV (in-context.csv)")).trim().split("\n").filter((line) => line.startsWith("the network,"));
  const shown = lines.map((line) => line.split(",").slice(1).map(Number));
  check(JSON.stringify(shown) === JSON.stringify(errors.map((e) => [e.t, e.squared_error])), "models: the errors in context differ");
}

async function audit(page) {
  await to(page, `#/audit?id=${expected.audit.id}`);
  await page.locator(".text .t").first().waitFor();
  const facts = await text(page, ".facts >> nth=0");
  const figures = expected.audit.windows ?? expected.audit.document_context;
  check(facts.includes(`${count(figures.extractable)} of ${count(figures.count)}`), `audit: the extractable windows are not in ${facts}`);
  check(facts.includes(number(expected.audit.bits_per_token)), "audit: bits per token differ");
  await page.locator(".text .t", { hasText: /\S/ }).nth(3).hover();
  await page.locator("#tip", { hasText: "probability" }).waitFor();
  check(/entropy/.test(await text(page, "#tip")) && /rank/.test(await text(page, "#tip")), "audit: hovering tells no rank and entropy");
  await page.locator(".text").focus();
  const tokens = await page.locator(".text .t").count();
  for (let i = 0; i < Math.min(tokens, 100); i++) await page.keyboard.press("ArrowRight");
  const current = page.locator(".text .current").first();
  await page.locator("#token-said", { hasText: "probability" }).waitFor();
  const letter = (await current.textContent()).trim();
  check((await text(page, "#token-said")).includes(letter), "audit: the status does not name the token of the arrow keys");
  const inside = () => page.evaluate(() => {
    const [area, own] = [".text", ".text .current"].map((name) => document.querySelector(name).getBoundingClientRect());
    return own.top >= area.top - 1 && own.bottom <= area.bottom + 1;
  });
  check(await inside(), "audit: the token of the arrow keys cannot be seen");
  await page.keyboard.press("Escape");
  check(await page.locator("#tip").isHidden(), "audit: Escape does not dismiss the values");
  // Every decade from the lowest that occurs, empty ones included.
  const bins = await page.locator("[data-figure=p-z] .bars li").allInnerTexts();
  const lowest = Math.min(...figures.p_z_histogram.filter((bin) => bin.count > 0 && bin.log10_from !== null).map((bin) => bin.log10_from));
  const own = figures.p_z_histogram.filter((bin) => bin.log10_from === null || bin.log10_from >= lowest).map((bin) => count(bin.count));
  check(JSON.stringify(bins.map((bin) => bin.trim().split(/\s+/).at(-1))) === JSON.stringify(own), `audit: the histogram shows ${bins} for ${own}`);
  const gaps = (await saved(page, "CSV (gap-by-length.csv)")).trim().split("\n").slice(1).map((line) => Number(line.split(",")[2]));
  const program = expected.audit.gap.by_length.filter((row) => row.predictions > 0).map((row) => row.gap_nats / row.predictions);
  check(JSON.stringify(gaps) === JSON.stringify(program), "audit: the gap by context length differs");
  check(!/\?/.test((await page.locator("[aria-label^='The contexts that cost'] td").allInnerTexts()).filter((cell) => cell.length < 3).join("")), "audit: a token is shown as a question mark");
  await page.getByRole("heading", { name: "Documents" }).waitFor();
  if (figures.extractable === 0) return;
  // A passage has an address.
  const next = page.getByRole("button", { name: "Next extractable passage" });
  if (await next.isDisabled()) return;
  await next.click();
  await next.click();
  await page.locator(".text .here").first().waitFor();
  const [where, stop] = [page.url(), await text(page, "#token-said")];
  check(/passage=\d/.test(where), "audit: the passage is not in the address");
  await page.goto("about:blank");
  await page.goto(where);
  await page.locator(".text .here").first().waitFor();
  check((await text(page, "#token-said")) === stop, "audit: the address leads to another passage");
  // Arrow keys continue from the passage.
  const at = () => page.evaluate(() => [...document.querySelectorAll(".text .t")].findIndex((e) => e.classList.contains("current")));
  const before = await at();
  await page.locator(".text").focus();
  await page.keyboard.press("ArrowLeft");
  const after = await at();
  check(before > 0 ? after < before && after > before - 4 : after === 0, `audit: the arrow keys go from token ${before} to ${after}`);
}

/** Text that would be an element elsewhere is text here. */
async function hostile(page) {
  const name = "<img src=x onerror=alert(1)>";
  const own = encodeURIComponent(name);
  page.on("dialog", (dialog) => {
    problems.push(`hostile: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.goto("about:blank");
  for (const [hash, place] of [[`#/corpus?q=${own}`, "#node h3"], [`#/runs?id=${own}`, "main .problem"], ...(expected.models ? [[`#/models?a=${own}`, "main .problem"]] : [])]) {
    await to(page, hash);
    await page.locator(place, { hasText: name }).first().waitFor();
    check((await page.locator("img, [onerror]").count()) === 0, `hostile: ${hash} made an element`);
  }
}

/** More tabs than a browser opens connections: every one is answered. */
async function tabs(page) {
  const all = [];
  for (let i = 0; i < 8; i++) {
    const tab = watched(await page.context().newPage());
    all.push(tab);
    await to(tab, "#/shapes");
    await tab.getByText("Bounds that apply").first().waitFor();
  }
  for (const tab of all) await tab.close();
}

/** Views that have nothing to show say what to do. */
async function empty(page) {
  await to(page, "#/models");
  await page.getByText("There are no models here").waitFor();
  await to(page, "#/audit");
  await page.getByText("There is no audit here").waitFor();
}

async function keyboard(page) {
  await page.goto("about:blank");
  await to(page, "#/corpus");
  await page.getByText("Contradictions that cost most").waitFor();
  await page.keyboard.press("Tab");
  check((await page.evaluate(() => document.activeElement.className)) === "skip", "keyboard: the first stop is not the link to the content");
  for (let i = 0; i < 4; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash !== "#/corpus");
  await page.keyboard.press("Tab");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check(outline !== "none", "keyboard: the focus cannot be seen");
}

const walks = { empty, corpus, shapes, sweep, training, models, others, audit, hostile, tabs, keyboard };
const given = { ...expected, shapes: expected.bounds, sweep: settings.sweep, empty: expected.empty };
const wanted = (name) => ["keyboard", "training", "hostile", "tabs"].includes(name) || Boolean(given[name]);
const wide = await open(1200);
for (const [name, walk] of Object.entries(walks)) {
  if (!wanted(name)) continue;
  try {
    await walk(wide);
    await fits(wide, `${name} at 1200`);
    await shot(wide, `${name}-1200`);
  } catch (error) {
    problems.push(`${name}: ${error.message.split("\n").slice(0, 3).join(" ")}`);
    await shot(wide, `${name}-failed`);
  }
}
// The same addresses on a phone, in the dark.
const narrow = await open(400, true);
for (const [name, hash, ready] of [
  ["corpus", `#/corpus?text=${encodeURIComponent(expected.word)}`, "#node .bars li"],
  ["shapes", "#/shapes?d_model=16&n_heads=4&d_mlp=512", "[data-figure=contexts-against-parameters]"],
  ["sweep", `#/runs?id=${settings.sweep?.id}`, "#run-jobs table"],
  ["models", `#/models?a=${encodeURIComponent(expected.models?.a)}&text=${encodeURIComponent(expected.models?.text)}&open=evaluate,picture`, "#next .bars li"],
  ["audit", `#/audit?id=${expected.audit?.id}`, ".text .t"],
]) {
  if (!wanted(name)) continue;
  try {
    await to(narrow, hash);
    await narrow.locator(ready).first().waitFor();
    await fits(narrow, `${name} at 400`);
    await shot(narrow, `${name}-400`);
  } catch (error) {
    problems.push(`${name} at 400: ${error.message.split("\n")[0]}`);
    await shot(narrow, `${name}-400-failed`);
  }
}
// The server is killed and started again: the page says so, and finds it by itself.
await narrow.close();
if (settings.restart) {
  const { program, args, cwd, pid } = settings.restart;
  try {
    wide.expectedProblems = 1;
    await to(wide, "#/runs");
    await wide.locator("main h1").waitFor();
    process.kill(pid, "SIGKILL");
    await wide.getByText("Connection lost").waitFor();
    const again = spawn(program, args, { cwd, stdio: "ignore" });
    await wide.waitForFunction(() => document.getElementById("connection").textContent === "");
    await to(wide, "#/corpus");
    await wide.getByText("Contradictions that cost most").waitFor();
    again.kill("SIGKILL");
  } catch (error) {
    problems.push(`restart: ${error.message.split("\n")[0]}`);
  }
}
await browser.close();
process.stdout.write(`${checks} checks, ${problems.length} problems\n${problems.join("\n")}\n`);
process.exit(problems.length === 0 ? 0 : 1);
