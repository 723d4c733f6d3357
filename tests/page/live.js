// A live page: six controls changed one after the other, each with the command that gives the same;
// a refused value; undo; a worker that is ended; the fragment.
"use strict";

const control = (key) => document.getElementById(`control-${key}`);

async function answered(count, within = 20000) {
  const end = performance.now() + within;
  while ((report.live.answered || 0) < count || report.live.busy) {
    if (performance.now() > end) throw new Error(`no answer ${count}`);
    await pause(10);
  }
}

async function choose(key, value) {
  const before = report.live.answered;
  const began = performance.now();
  const input = control(key);
  input.value = input.tagName === "SELECT" ? JSON.stringify(value) : String(value);
  input.dispatchEvent(new Event("change"));
  await answered(before + 1);
  return {key, value, ms: performance.now() - began, command: report.live.command(),
    result: {...report.chosen.result},
    difference: document.getElementById("live-difference").textContent};
}

see(async () => {
  const opened = performance.now();
  await answered(1);
  seen.firstAnswerMs = performance.now();
  seen.openedMs = opened;
  seen.title = document.title;
  seen.same = report.chosen.result.iteration_s;
  seen.changes = [];
  for (const [key, value] of [["parallel.micro_batch", 2], ["parallel.tp", 4],
    ["cluster.nic_Gbitps", 800], ["train.recompute", "selective"], ["overlap.grad_reduce", true],
    ["variability.jitter", 0.05]]) seen.changes.push(await choose(key, value));
  seen.hash = decodeURIComponent(location.hash);
  seen.scenario = report.live.scenario();
  seen.was = document.querySelectorAll("#numbers .was").length;
  seen.timeline = report.timeline.model.end;

  // A value that the rules refuse stands beside its control, and changes nothing.
  const batch = control("parallel.global_batch");
  const kept = batch.value;
  batch.value = "1537";
  batch.dispatchEvent(new Event("change"));
  const why = document.getElementById("control-parallel.global_batch-why");
  while (why.textContent === "") await pause(10);
  seen.refused = why.textContent;
  seen.keptBatch = [kept, batch.value];

  while (report.live.offered !== report.live.answered) await pause(20);
  seen.fixes = report.chosen.result.memory_fixes;
  const options = [...control("schedule.order").options];
  seen.offers = options.map((option) => ({value: option.value, disabled: option.disabled,
    text: option.textContent}));

  // What is refused alone is offered with what makes room for it.
  seen.zbv = await choose("schedule.order", "zbv");
  seen.zbv.changes = {...report.live.changes};

  const before = report.live.answered;
  document.getElementById("live-undo").click();
  await answered(before + 1);
  seen.undone = report.live.changes["schedule.order"] === undefined;

  // Stopped in the middle of an answer, the page goes on with a new worker.
  control("variability.jitter").value = "0.1";
  control("variability.jitter").dispatchEvent(new Event("change"));
  report.live.stop();
  while (report.live.busy) await pause(10);
  seen.stopped = document.getElementById("live-failure").textContent;

  // Undo that comes to nothing drops the step that it took, and no other.
  const steps = report.live.past.length;
  document.getElementById("live-undo").click();
  report.live.stop();
  while (report.live.busy) await pause(10);
  seen.dropped = steps - report.live.past.length;
  seen.again = await choose("variability.jitter", 0.02);

  // An engine that breaks says so, and is started again.
  const {engine} = report.live, {worker} = engine;
  worker.postMessage({program: new Uint8Array(3)});
  while (!engine.broken && engine.worker === worker) await pause(10);
  seen.afterBreak = await choose("variability.jitter", 0.03);
  await choose("variability.jitter", "");
  seen.emptied = !("variability.jitter" in report.live.changes);

  const atLast = report.live.answered;
  document.getElementById("live-reset").click();
  await answered(atLast + 1);
  seen.reset = [report.chosen.result.iteration_s, location.hash];
});
