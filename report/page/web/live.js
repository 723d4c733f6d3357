// A live page: each change of a control simulates the chosen run again, in the page's own engine.
// The changes are kept in the URL's fragment, can be undone, and can be copied as a scenario or as
// a command. A run's `began` has its result, detail and values as the page was written. Companions
// are changes of other keys that make room for a value (controls.js).
"use strict";

const kSearchSeconds = 20;

// Returns settings as the text of a scenario.
function scenarioText(settings, title) {
  const tables = d3.nest().key(([key]) => key.slice(0, key.lastIndexOf("."))).sortKeys(d3.ascending)
    .entries(Object.entries(settings));
  const name = (part) => /^[\w-]+$/.test(part) ? part : JSON.stringify(part);
  const lines = tables.map(({key: table, values}) =>
    [`\n[${table.split(".").map(name).join(".")}]`, ...values.map(([key, value]) =>
      `${name(key.slice(key.lastIndexOf(".") + 1))} = ${JSON.stringify(value)}`)].join("\n"));
  return `# ${title}\n${lines.join("\n")}\n`;
}

const shellWord = (word) => /^[\w.,=/+:-]+$/.test(word) ? word
  : `'${word.replace(/'/g, "'\\''")}'`;

const isEmpty = (changes) => Object.keys(changes).length === 0;

// Says how a run differs from its beginning: time, tokens, bubble, memory.
function differenceText(began, now) {
  const change = (value, base) => `${d3.format("+.1f")(100 * (value / base - 1))} %`;
  const speed = now.tokens_per_s && began.tokens_per_s
    ? `${change(now.tokens_per_s, began.tokens_per_s)} tokens/s`
    : `${change(now.iteration_s, began.iteration_s)} of the iteration's time`;
  const words = [`${seconds(now.iteration_s)}, ${seconds(began.iteration_s)} at the beginning: ` +
    speed];
  const points = 100 * (now.bubble_fraction - began.bubble_fraction);
  if (Math.abs(points) >= 0.05) words.push(`bubble ${d3.format("+.1f")(points)} points`);
  if (now.fits && began.fits === false) words.push("fits now");
  const over = now.spare_bytes === undefined ? "" : `, over by ${memory(-now.spare_bytes)}`;
  return `${now.fits === false ? `Does not fit${over}. ` : ""}${words.join(", ")}.`;
}

// Says which values changed beside the one that the user chose.
function alsoText(asked, before, after) {
  const also = kAllControls.map(({key}) => key).filter((key) => key !== asked &&
    after[key] !== undefined && JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  return also.length === 0 ? ""
    : ` Also changed: ${changesText(Object.fromEntries(also.map((key) => [key, after[key]])))}.`;
}

// Says how many of all plans a search has tried. `gap`: how much faster one of the others may be.
function triedText(gap, complete) {
  if (isMissing(gap)) return "";
  if (complete) return " All plans were looked through, with estimates of their times.";
  return " Not all plans were tried: by an estimate none is more than " +
    `${percentAtMost(gap)} faster.`;
}

class Live {
  // counted(run) is called when a run's figures have changed, shown(run) when its detail has too.
  constructor(counted, shown) {
    Object.assign(this, {counted, shown});
    this.engine = new Engine();
    this.controls = new Controls(byId("controls"),
      (control, value, companions) => this.set(control, value, companions));
    this.run = null;
    byId("live-section").hidden = false;
    byId("live-undo").onclick = () => this.undo();
    byId("live-reset").onclick = () => this.begin({});
    byId("live-stop").onclick = () => this.stop();
    byId("live-scenario").onclick = () => this.copy(this.scenario());
    byId("live-command").onclick = () => this.copy(this.command());
    byId("live-search").onclick = () => this.search();
    byId("live-copied").querySelector("form").onsubmit = () => byId("live-search").focus();
    window.addEventListener("hashchange", () => this.follow());
  }

  // Begins with a run as the page was written, or with the changes of the URL's fragment.
  async show(run) {
    if (!run.inputs) return;
    this.run = run;
    run.began = run.began || (run.result ? {result: run.result, detail: run.detail} : null);
    this.past = [];
    this.changes = {};
    this.say("The engine starts.");
    try {
      this.words = this.words || await this.engine.ask({do: "words"});
      if (!run.began || !run.began.values) {
        // A run of the page lacks its values; one of the explorer has not been simulated yet.
        const answer = run.began
          ? await this.engine.ask({do: "values", run: this.inputs({})}) : await this.ask({}, false);
        run.began = {...answer, ...run.began};
      }
    } catch (error) {
      if (run.began) this.fail(error);
      throw error;
    }
    if (this.run !== run) return;
    this.now = run.began.values;
    this.simulate(this.changesOfAddress(run));
  }

  // Returns the run's inputs with changes. Settings that would follow from others are fixed: the
  // batch, and the GPUs rather than the replicas.
  inputs(changes) {
    const {inputs, began} = this.run;
    if (!began || isEmpty(changes)) return {...inputs, changes};
    const fixed = {"parallel.dp": null, "cluster.gpus": began.values["cluster.gpus"],
      "parallel.global_batch": began.values["parallel.global_batch"]};
    return {...inputs, changes: {...fixed, ...changes}};
  }

  ask(changes, detail = true) {
    return this.engine.ask({do: "simulate", run: this.inputs(changes), detail});
  }

  set(control, value, companions) {
    const {settings} = this.run.inputs;
    const changes = {...this.changes, ...changesOf(control, value, this.now, settings),
      ...companions};
    for (const [key, each] of Object.entries(changes))
      if (each === null && !(key in settings)) delete changes[key];
    this.begin(changes, control.key);
  }

  undo() { if (this.past.length > 0) this.begin(this.past.pop(), null, false); }

  // Simulates with other changes, and drops what a search has found. `asked`: the key that the user
  // chose, beside which others may change; null: all changes were chosen.
  begin(changes, asked = null, remember = true) {
    if (remember && this.past[this.past.length - 1] !== this.changes) this.past.push(this.changes);
    this.asked = asked;
    if (this.searcher) this.searcher.stop();
    byId("live-found").replaceChildren();
    return this.simulate(changes);
  }

  // Simulates with these changes. Those that are asked for meanwhile are in `wanted`: only the
  // newest of them is simulated.
  async simulate(changes) {
    this.wanted = {run: this.run, changes};
    if (this.busy) return;
    this.busy = true;
    const waits = setTimeout(() => { byId("live-stop").hidden = false; }, 1500);
    while (this.wanted) {
      const {run, changes: next} = this.wanted;
      this.wanted = null;
      await this.simulateOnce(run, next);
    }
    clearTimeout(waits);
    byId("live-stop").hidden = true;
    this.busy = false;
    await this.fix();
    if (!this.busy) await this.offer();
  }

  // Shows the figures with these changes, then the pictures unless other changes are wanted by now.
  async simulateOnce(run, changes) {
    const before = this.changes;
    this.changes = changes;
    this.say("Simulating.");
    const isKnown = isEmpty(changes) && hasTimeline(run.began);
    try {
      const answer = isKnown ? run.began : await this.ask(changes, false);
      if (run !== this.run) return;
      this.accept(run, answer);
      if (this.wanted) return;
      const {detail} = isKnown ? run.began : await this.ask(changes);
      if (run !== this.run || this.wanted) return;
      run.detail = detail;
      if (isEmpty(changes)) run.began.detail = detail;
      this.shown(run);
    } catch (error) {
      if (run !== this.run) return;
      this.changes = before;  // takes the refused value back
      this.forget(changes, before);
      if (!this.wanted) this.refused(error);
    }
  }

  // Drops a refused step from the history. If a step that is wanted by now began at the refused
  // changes, it begins at those before them, as the refused one did; of Undo nothing is left there.
  forget(changes, before) {
    const past = this.past.filter((each) => each !== changes);
    if (past.length === this.past.length && past[past.length - 1] === before) past.pop();
    this.past = past;
  }

  // Shows the figures and values of an answer.
  accept(run, {result, values}) {
    const also = this.asked ? alsoText(this.asked, this.now, values) : "";
    run.result = result;
    this.now = values;
    this.write();
    this.controls.show(values, run.began.values, this.words);
    const isChanged = !isEmpty(this.changes);
    byId("live-difference").classList.toggle("bad", isChanged && result.fits === false);
    const unknown = this.unknownRun
      ? `This page does not have the address's run ${this.unknownRun}. ` : "";
    this.say(isChanged ? differenceText(run.began.result, result) + also
      : `${unknown}Change a value: the run is simulated again.`);
    // Tests wait for `answered` to grow, and for `offered` to reach it.
    this.answered = (this.answered || 0) + 1;
    this.counted(run);
  }

  // Shows the values as they are, with the engine's reason beside the control.
  refused(error) {
    this.controls.show(this.now, this.run.began.values, this.words);
    const beside = this.controls.blame(error.keys, error.message, this.asked);
    this.say(beside ? "Refused: the values are as before." : "");
    byId("live-failure").textContent = beside ? "" : error.message;
  }

  fail(error) {
    byId("live-section").classList.add("off");
    byId("live-failure").textContent = `${error.message}. The page shows what it was written with.`;
    this.say("");
  }

  stop() {
    this.engine.stop();
    this.wanted = null;
  }

  // Asks for changes with which the run fits, if it does not.
  async fix() {
    const {run, changes, now} = this;
    const {result} = run;
    if (result.fits !== false || result.memory_fixes) return;
    const {memory_fixes} = await this.engine.ask({do: "fixes", run: this.inputs(changes)})
      .catch(() => ({memory_fixes: null}));
    if (this.now !== now || this.busy) return;
    result.memory_fixes = memory_fixes;
    drawNumbers(run);
  }

  // Asks which values of the lists the engine would refuse, control by control, until a new value
  // is wanted.
  async offer() {
    const {run, changes, now} = this;
    if (!now) return;
    for (const control of kAllControls) {
      const values = this.controls.offered(control, now);
      if (values.length === 0) continue;
      if (this.busy || this.wanted || this.changes !== changes) return;
      await this.offerValues(control, values, {run, changes, now});
      if (this.now !== now || this.wanted) return;
    }
    this.offered = this.answered;
  }

  // Marks those of a list's values that the engine refuses, with the first companions that make
  // them possible.
  async offerValues(control, values, {run, changes, now}) {
    const tried = (value, more = {}) => this.inputs({...changes,
      ...changesOf(control, value, now, run.inputs.settings), ...more}).changes;
    // Answers each try with the reason why it is refused; null: it is possible.
    const check = (tries) => this.engine.ask(
      {do: "check", run: {...run.inputs, changes: {}}, tries}).catch(() => []);
    const reasons = await check(values.map((value) => tried(value)));
    const companions = companionsOf(control, now);
    for (const [i, value] of values.entries()) {
      if (!reasons[i]) continue;
      const still = await check(companions.map((more) => tried(value, more)));
      if (this.now !== now || this.wanted) return;
      this.controls.refuse(control, value, reasons[i], companions[still.indexOf(null)]);
    }
  }

  say(text) {
    byId("live-difference").textContent = text;
    byId("live-failure").textContent = "";
    byId("live-undo").disabled = this.past.length === 0;
    byId("live-reset").disabled = isEmpty(this.changes);
  }

  // Writes the changes into the URL's fragment: run=NAME&parallel.tp=4.
  write() {
    const words = new URLSearchParams({run: this.run.name});
    for (const [key, value] of Object.entries(this.changes)) words.set(key, JSON.stringify(value));
    this.address = isEmpty(this.changes) ? "" : `#${words}`;
    // In a notebook's frame a page has no address.
    if (location.protocol !== "about:")
      history.replaceState(null, "", this.address || location.href.split("#")[0]);
  }

  changesOfAddress(run) {
    const words = new URLSearchParams(location.hash.slice(1));
    const changes = {};
    if (words.get("run") !== run.name) return changes;
    for (const [key, text] of words) {
      if (key === "run") continue;
      try { changes[key] = JSON.parse(text); } catch (error) { changes[key] = text; }
    }
    return changes;
  }

  follow() {
    if (location.hash === this.address || !this.run) return;
    this.begin(this.changesOfAddress(this.run));
  }

  scenario() {
    const settings = {...this.run.inputs.settings};
    for (const [key, value] of Object.entries(this.inputs(this.changes).changes)) {
      if (value === null) delete settings[key]; else settings[key] = value;
    }
    const {files} = this.run.inputs;
    const beside = isEmpty(files) ? "" :
      ` Beside it: ${Object.keys(files).join(", ")}.`;
    return scenarioText(settings, `${this.run.name}, from a report page of Tandem.${beside}`);
  }

  command() {
    const {changes} = this.inputs(this.changes);
    const {settings, sets: given} = this.run.inputs;
    const taken = Object.entries(changes).some(([key, value]) =>
      value === null && key !== "parallel.dp" && key in settings);
    // No option takes a setting away, and the explorer's runs are in no file.
    if (taken || report.data.starts)
      return "# Save what 'Copy as scenario' gives as changed.toml.\n" +
        "tandem simulate changed.toml --engine ideal";
    const all = {...given, ...changes};
    if ("parallel.dp" in changes) all["parallel.dp"] = this.now["parallel.dp"];
    const word = (value) => typeof value === "string" ? value : JSON.stringify(value);
    const sets = Object.entries(all).filter(([, value]) => value !== null)
      .map(([key, value]) => `--set ${shellWord(`${key}=${word(value)}`)}`);
    return ["tandem simulate", shellWord(report.data.source),
      `--only ${shellWord(this.run.name)}`, "--engine ideal", ...sets].join(" ");
  }

  copy(text) {
    byId("live-copied-text").value = text;
    byId("live-copied").showModal();
    byId("live-copied-text").select();
    if (navigator.clipboard) navigator.clipboard.writeText(text).catch(() => {});
  }

  // Searches the fastest plan that keeps the changed values, in a second worker.
  async search() {
    const button = byId("live-search"), message = byId("live-found");
    if (this.searcher) {
      this.searcher.stop();
      return;
    }
    const {run, changes, now} = this;
    const began = performance.now();
    let best = null, failure = "No plan was found that fits.";
    const tell = () => {
      const left = Math.max(0, kSearchSeconds - (performance.now() - began) / 1000);
      const soFar = best ? `Best so far ${seconds(best.iteration_s)}, stage by stage. ` : "";
      message.textContent = `${soFar}${d3.format(".0f")(left)} s left.`;
    };
    const clock = setInterval(tell, 500);
    this.searcher = new Engine((found) => { best = {...found, estimated: true}; tell(); });
    button.textContent = "Stop the search";
    try {
      const fixed = Object.keys(changes);
      const tuned = await this.searcher.ask({do: "tune", run: this.inputs(changes), fixed,
        seconds: kSearchSeconds});
      const found = tuned.best.find(({result}) => result && result.fits !== false);
      best = found ? {...found, iteration_s: found.result.iteration_s, gap: tuned.gap,
        complete: tuned.complete} : null;
    } catch (error) {
      failure = error.message;
    }
    clearInterval(clock);
    this.searcher.stop();
    this.searcher = null;
    button.textContent = `Search a better plan (${kSearchSeconds} s)`;
    if (this.now !== now) message.textContent = "";
    else if (!best) message.textContent = failure;
    else this.tellFound(best, changes);
  }

  // Says what the search found, with a button that takes it. A plan of a search that was stopped
  // has no result: its time was added up stage by stage.
  tellFound({changes: found, iteration_s: found_s, result, gap, complete}, changes) {
    const now = this.run.result.iteration_s;
    const plan = Object.entries(found).filter(([key, value]) => controlOf(key) &&
      this.now[key] !== undefined && JSON.stringify(this.now[key]) !== JSON.stringify(value));
    const kept = Object.keys(changes).filter(controlOf);
    const guess = result && result.calibrated === false ? "a guess, " : "";
    const range = !result || result.iteration_low_s === null ? ""
      : ` (${guess}${interval(result)})`;
    const isBetter = found_s < now && plan.length > 0;
    const said = isBetter
      ? `${result ? "" : "About "}${seconds(found_s)}${range} instead of ${seconds(now)} now: ` +
        `${changesText(Object.fromEntries(plan))}.`
      : "No better plan was found.";
    const keeping = kept.length === 0 ? ""
      : ` Kept: ${changesText(Object.fromEntries(kept.map((key) => [key, this.now[key]])))}.`;
    byId("live-found").replaceChildren(`${said}${keeping}${triedText(gap, complete)} `);
    if (!isBetter) return;
    // The number of replicas is left to follow from that of GPUs.
    const {"parallel.dp": _, ...taken} = found;
    byId("live-found").append(make("button", {type: "button",
      onclick: () => this.begin({...changes, ...taken})}, "Take it"));
  }
}

// Makes the page live if it holds an engine that this browser can run; else says why it is not.
function startLive(counted, shown) {
  if (!byId("engine-program")) return null;
  const missing = engineMissing();
  if (missing === "") return new Live(counted, shown);
  byId("live-section").hidden = false;
  byId("live-section").classList.add("off");
  byId("live-failure").textContent =
    `The values cannot be changed here: ${missing}. The page shows what it was written with.`;
  return null;
}
