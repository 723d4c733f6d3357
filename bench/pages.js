// Measures pages that compute: node bench/pages.js TANDEM TANDEM.JS. Sizes are of whole files; CPU
// is of a warm simulation with its JSON; the browser is Chromium.
"use strict";

const fs = require("fs");
const os = require("os");
const path = require("path");
const {execFileSync} = require("child_process");

const [tandem, engine] = process.argv.slice(2).map((file) => path.resolve(file));
const root = path.resolve(__dirname, "..");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tandem-pages-"));
const scenario = (name) => path.join(root, "scenarios", `${name}.toml`);
const page = (name) => path.join(folder, `${name}.html`);
const run = (...words) => execFileSync(tandem, words, {stdio: ["ignore", "ignore", "ignore"]});

const kJobs = [{name: "39B", words: [scenario("megatron-sc21"), "--only", "39B, selene"]},
  {name: "DeepSeek-V3", words: [scenario("deepseek-v3"), "--only", "DualPipe, overlapped"]}];

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

// CPU seconds of a simulation in node, warm.
function wasmCpu(asking, request) {
  const times = [];
  for (let i = 0; i < 15; ++i) {
    const before = process.cpuUsage();
    const text = asking.ccall("tandem_answer", "number", ["string"], [request]);
    asking.UTF8ToString(text);
    asking._free(text);
    const {user, system} = process.cpuUsage(before);
    times.push((user + system) / 1e6);
  }
  return median(times.slice(5));
}

// CPU seconds that the program takes for one run more of a sweep.
function nativeCpu([file, , only]) {
  const ofRuns = (count) => {
    const rows = path.join(folder, `${count}.csv`), list = path.join(folder, "list.csv");
    const rates = Array.from({length: count}, (_, i) => 101 + i);
    fs.writeFileSync(list, `cluster.nic_Gbitps\n${rates.join("\n")}\n`);
    const words = ["sweep", file, "--only", only, "--list", list, "-o", rows, "--engine", "ideal",
      "--jobs", "1"];
    const text = execFileSync("bash",
      ["-c", "TIMEFORMAT='%U %S'; { time \"$@\" >/dev/null 2>&1; } 2>&1", "-", tandem, ...words],
      {encoding: "utf8"});
    return text.trim().split(" ").reduce((sum, each) => sum + Number(each), 0);
  };
  return (ofRuns(45) - ofRuns(5)) / 40;
}

const browsed = (file) => JSON.parse(execFileSync("node",
  [path.join(root, "tests/page/browse.js"), "chromium", path.join(folder, "profile"), file,
    path.join(__dirname, "live_times.js")], {encoding: "utf8"}));

const megabytes = (file) => `${(fs.statSync(file).size / 1e6).toFixed(2)} MB`;
const milliseconds = (value) => `${Math.round(value)} ms`;

async function measure() {
  const wasmBinary = fs.readFileSync(engine.replace(/js$/, "wasm"));
  const asking = await require(engine)({wasmBinary});
  run("explore", "-o", page("explore"));
  console.log(`explorer ${megabytes(page("explore"))}`);
  for (const {name, words} of kJobs) {
    run("simulate", ...words, "--engine", "ideal", "--report", page("static"));
    run("simulate", ...words, "--report", page("live"), "--live");
    const [{inputs}] = JSON.parse(fs.readFileSync(page("live"), "utf8")
      .split('<script type="application/json" id="data">')[1].split("</script>")[0]).runs;
    const request = JSON.stringify({do: "simulate", run: {...inputs, changes: {}}, detail: false});
    const {first, figures, control} = browsed(page("live"));
    const wasm = wasmCpu(asking, request), native = nativeCpu(words);
    console.log(`${name}: page ${megabytes(page("static"))}, live ${megabytes(page("live"))}, ` +
      `CPU ${(1000 * wasm).toFixed(1)} ms over ${(1000 * native).toFixed(1)} ms natively ` +
      `(${(wasm / native).toFixed(2)}), first answer ${milliseconds(first)}, ` +
      `control to figures ${milliseconds(figures)}, to pictures ${milliseconds(control)}`);
  }
}

measure().finally(() => fs.rmSync(folder, {recursive: true}));
