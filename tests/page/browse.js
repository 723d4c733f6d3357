// Opens a page in Chromium with a real clock, runs steps on it and prints what they saw as JSON:
//   node browse.js CHROMIUM PROFILE PAGE STEPS.js [WIDTH] [HASH]
// STEPS.js calls see(async () => ...) of harness.js. Chromium is asked over a pipe (its DevTools
// protocol). TANDEM_MEDIA=print shows the page as on paper. Afterwards TANDEM_SHOT=FILE.png takes a
// picture of it, and TANDEM_PDF=FILE.pdf prints it on A4.
"use strict";

const fs = require("fs");
const path = require("path");
const {spawn} = require("child_process");

const [chromium, profile, page, steps, width = "1400", hash = ""] = process.argv.slice(2);
const browser = spawn(chromium, ["--headless=new", "--no-sandbox", "--disable-gpu",
  "--disable-dev-shm-usage", "--no-first-run", `--user-data-dir=${profile}`,
  "--remote-debugging-pipe", "about:blank"],
{stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
const [, , , ask, told] = browser.stdio;
const answers = new Map();  // by id: who waits
let heard = "", lastId = 0;

told.on("data", (data) => {
  heard += data;
  const texts = heard.split("\0");
  heard = texts.pop();
  for (const message of texts.map((text) => JSON.parse(text))) {
    if (!answers.has(message.id)) continue;
    const {resolve, reject} = answers.get(message.id);
    answers.delete(message.id);
    if (message.error) reject(new Error(JSON.stringify(message.error)));
    else resolve(message.result);
  }
});

const send = (method, params, sessionId) => new Promise((resolve, reject) => {
  answers.set(++lastId, {resolve, reject});
  ask.write(`${JSON.stringify({id: lastId, method, params, sessionId})}\0`);
});

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function browse() {
  const {targetId} = await send("Target.createTarget", {url: "about:blank"});
  const {sessionId} = await send("Target.attachToTarget", {targetId, flatten: true});
  const tell = (method, params = {}) => send(method, params, sessionId);
  const value = async (expression) =>
    (await tell("Runtime.evaluate", {expression, returnByValue: true})).result.value;
  await tell("Page.enable");
  await tell("Emulation.setDeviceMetricsOverride",
    {width: Number(width), height: 900, deviceScaleFactor: 1, mobile: false});
  if (process.env.TANDEM_MEDIA)
    await tell("Emulation.setEmulatedMedia", {media: process.env.TANDEM_MEDIA});
  const harness = fs.readFileSync(path.join(__dirname, "harness.js"), "utf8");
  await tell("Page.addScriptToEvaluateOnNewDocument", {source: harness});
  await tell("Page.navigate", {url: `file://${path.resolve(page)}${hash}`});
  while (await value("document.readyState") !== "complete") await pause(20);
  await tell("Runtime.evaluate", {expression: fs.readFileSync(steps, "utf8")});
  const end = Date.now() + 1000 * Number(process.env.TANDEM_WAIT || 240);
  let text = null;
  while (!text && Date.now() < end) {
    await pause(100);
    text = await value("(document.getElementById('seen') || {}).textContent");
  }
  if (process.env.TANDEM_SHOT) {
    const {data} = await tell("Page.captureScreenshot", {captureBeyondViewport: true});
    fs.writeFileSync(process.env.TANDEM_SHOT, Buffer.from(data, "base64"));
  }
  if (process.env.TANDEM_PDF) {
    await tell("Runtime.evaluate", {expression: "document.getElementById('seen').remove()"});
    const {data} = await tell("Page.printToPDF",
      {printBackground: true, paperWidth: 8.27, paperHeight: 11.69});
    fs.writeFileSync(process.env.TANDEM_PDF, Buffer.from(data, "base64"));
  }
  if (!text) throw new Error(`the steps did not end: ${await value("JSON.stringify(seen)")}`);
  process.stdout.write(`${text}\n`);
}

browse().catch((error) => { process.stderr.write(`${error.stack}\n`); process.exitCode = 1; })
  .finally(() => { browser.kill(); });
