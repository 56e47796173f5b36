// Walks through every view in Chromium, and compares what it shows with the JSON of the program.
// Usage: node walk.mjs SETTINGS.json, which holds {page, chromium, address, shots, expected, restart}.

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
// Numbers are formatted by the page's own functions, so that texts can be compared.
const { count, number, percent } = await import(pathToFileURL(join(settings.page, "make.js")));
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
  const page = await context.newPage();
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

async function shot(page, name) {
  if (!shots) return;
  await page.waitForTimeout(300);
  writeFileSync(join(shots, `${name}.png`), await page.screenshot({ fullPage: true }));
}

async function fits(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check(wide <= 1, `${where}: the page is ${wide} pixels too wide`);
  const small = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select")].filter((e) => e.offsetParent && !(e.textContent || e.getAttribute("aria-label") || e.labels?.length || e.title)).length);
  check(small === 0, `${where}: ${small} controls have no name`);
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
  const own = c.by_length.filter((l) => l.floor_nats_per_prediction !== null);
  check(own.every((l, i) => Number(rows[i][1]) === l.length && Number(rows[i][2]) === l.floor_nats_per_prediction), "corpus: the CSV of the curve differs");
  // Type a context, walk deeper, reload, search.
  await page.getByLabel("The beginning of a document").fill(expected.word);
  await page.getByRole("button", { name: "Show what follows" }).click();
  await page.locator(".crumbs li").nth(1).waitFor();
  const first = page.locator("#node .bars li button").first();
  const next = await first.innerText();
  await first.click();
  await page.locator(".crumbs li").nth(2).waitFor();
  check((await page.locator(".crumbs li").nth(2).innerText()).includes(next), "corpus: walking deeper shows another token");
  const node = await text(page, "#node");
  await page.reload();
  await page.locator(".crumbs li").nth(2).waitFor();
  check((await text(page, "#node")) === node, "corpus: a reloaded address shows something else");
  await page.goBack();
  await page.locator(".crumbs li").nth(1).waitFor();
  await page.getByLabel("The beginning of a document").fill(expected.word);
  await page.getByRole("button", { name: "Search everywhere" }).click();
  await page.getByText(`Contexts that end with “${expected.word}”`).waitFor();
  await page.getByLabel("The beginning of a document").fill("xyzzy");
  page.expectedProblems = 1;
  await page.getByRole("button", { name: "Show what follows" }).click();
  await page.locator("#node .problem").waitFor();
  page.expectedProblems = 0;
}

async function shapes(page) {
  await to(page, "#/shapes?d_model=16&n_heads=4&d_mlp=512");
  await page.getByText("Bounds that apply").first().waitFor();
  const facts = await text(page, "main .facts");
  check(facts.includes(count(expected.bounds.parameters)), `shapes: ${count(expected.bounds.parameters)} is not in ${facts}`);
  check(facts.includes(expected.bounds.verdict.sentence), `shapes: the sentence is not in ${facts}`);
  const began = Date.now();
  const slider = page.locator("#s-d_mlp");
  await slider.focus();
  await slider.press("ArrowRight");
  await page.waitForFunction((before) => !document.querySelector("main .facts").innerText.includes(before), count(expected.bounds.parameters));
  check(Date.now() - began < 1000, `shapes: ${Date.now() - began} ms after a slider moved`);
  check(page.url().includes("d_mlp="), "shapes: the shape is not in the address");
  const moved = await text(page, "main .facts");
  await page.reload();
  await page.getByText("Bounds that apply").first().waitFor();
  check((await text(page, "main .facts")) === moved, "shapes: a reloaded address shows something else");
  page.expectedProblems = 1;
  await page.getByLabel("width, exactly").fill("0");
  await page.getByLabel("width, exactly").blur();
  await page.locator("[data-setting=d_model]:not(:empty)").waitFor();
  page.expectedProblems = 0;
}

async function sweep(page) {
  const { id, jobs, done, rows } = expected.sweep;
  await to(page, `#/runs?id=${id}`);
  await page.locator("#run-jobs table").waitFor();
  const head = await text(page, "#run-head");
  check(head.includes(`${count(done)} of ${count(jobs)}`), `runs: ${done} of ${jobs} is not in ${head}`);
  const shown = await page.locator("#run-jobs tbody tr").count();
  check(shown === jobs, `runs: ${shown} rows for ${jobs} jobs`);
  const table = await text(page, "#run-jobs table");
  for (const row of rows.filter((r) => r.status === "done")) check(table.includes(number(row.gap_nats_per_prediction)), `runs: the gap ${number(row.gap_nats_per_prediction)} is not in the table`);
  check(await page.locator("[data-figure=gap-by-steps] path.line").count() > 0, "runs: no curve is drawn");
  await page.locator("#run-jobs tbody button").first().click();
  await page.locator("#run-job h3").waitFor();
  check(page.url().includes("job=0"), "runs: the job is not in the address");
}

async function training(page) {
  await to(page, "#/runs");
  await page.getByText("Start a training").click();
  await page.getByRole("status").filter({ hasText: "parameters for" }).waitFor();
  page.expectedProblems = 1;
  await page.locator("#f-lr").fill("-3");
  await page.locator("[data-setting=lr]:not(:empty)").waitFor();
  check(await page.getByRole("button", { name: "Start", exact: true }).isDisabled(), "runs: a wrong setting can be started");
  await page.locator("#f-lr").fill("");
  await page.locator("[data-setting=lr]:empty").waitFor({ state: "attached" });
  page.expectedProblems = 0;
  await page.locator("#f-name").fill("from-the-page");
  await page.locator("#f-d_mlp").fill("32");
  await page.locator("#f-optimizer").selectOption("adam");
  await page.locator("#f-steps").fill("100000000");
  await page.locator("#f-stop_relative_gap").fill("1e-12");
  await page.waitForTimeout(400);
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
  await page.getByText("Look at the model").click();
  await page.getByText("What comes next?").waitFor();
}

async function models(page) {
  const { a, b, text: context, next, evaluation, certificate } = expected.models;
  await to(page, `#/models?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}&text=${encodeURIComponent(context)}&open=evaluate,certify,picture`);
  await page.locator("#next .bars li").first().waitFor();
  const bars = await text(page, "#next");
  for (const token of next.slice(0, 3)) check(bars.includes(percent(token.probability)), `models: ${percent(token.probability)} is not in ${bars}`);
  // The two models are computed one after the other, in either order.
  const [memorized, certified] = [`${count(evaluation.memorized)} of ${count(evaluation.contexts)} contexts`, `${count(certificate.certified_contexts)} of ${count(certificate.contexts)}`];
  await page.locator("[data-task^='evaluate']", { hasText: memorized }).first().waitFor();
  await page.getByText("The contexts that contribute most to the gap").first().waitFor();
  await page.locator("[data-task^='certify']", { hasText: certified }).first().waitFor();
  await page.locator("[data-figure=construction], [data-figure=features], [data-figure=stages]").first().waitFor();
}

async function audit(page) {
  await to(page, `#/audit?id=${expected.audit.id}`);
  await page.locator(".text .t").first().waitFor();
  const facts = await text(page, ".facts >> nth=0");
  const figures = expected.audit.windows ?? expected.audit.document_context;
  check(facts.includes(`${count(figures.extractable)} of ${count(figures.count)}`), `audit: the extractable windows are not in ${facts}`);
  check(facts.includes(number(expected.audit.bits_per_token)), "audit: bits per token differ");
  await page.locator(".text .t").nth(3).hover();
  await page.locator("#tip", { hasText: "probability" }).waitFor();
  check(/entropy/.test(await text(page, "#tip")) && /rank/.test(await text(page, "#tip")), "audit: hovering tells no rank and entropy");
  if (figures.extractable > 0) {
    await page.getByRole("button", { name: "Next extractable passage" }).click();
    await page.locator(".text .here").first().waitFor();
  }
  await page.locator("[data-figure=p-z]").waitFor();
  await page.locator("[data-figure=gap-by-length]").waitFor();
  await page.getByRole("heading", { name: "Documents" }).waitFor();
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

const walks = { corpus, shapes, sweep, training, models, audit, keyboard };
const wide = await open(1200);
for (const [name, walk] of Object.entries(walks)) {
  if (settings.only && !settings.only.includes(name)) continue;
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
  ["corpus", `#/corpus?text=${expected.word}`, "#node .bars li"],
  ["shapes", "#/shapes?d_model=16&n_heads=4&d_mlp=512", "[data-figure=contexts-against-parameters]"],
  ["sweep", `#/runs?id=${expected.sweep?.id}`, "#run-jobs table"],
  ["models", `#/models?a=${encodeURIComponent(expected.models?.a)}&text=${encodeURIComponent(expected.models?.text)}&open=evaluate,picture`, "#next .bars li"],
  ["audit", `#/audit?id=${expected.audit?.id}`, ".text .t"],
]) {
  if (settings.only && !settings.only.includes(name)) continue;
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
