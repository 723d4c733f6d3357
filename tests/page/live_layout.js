// A live page that is opened with changes in its address: its values, and whether it prints.
"use strict";

see(async () => {
  const end = performance.now() + 20000;
  while (!(report.live.answered >= 1) || report.live.busy) {
    if (performance.now() > end) throw new Error("no answer");
    await pause(10);
  }
  seen.changes = report.live.changes;
  seen.result = report.chosen.result;
  seen.labels = [...document.querySelectorAll("#controls .control:not([hidden])")].map((box) =>
    [box.querySelector("label").textContent,
      box.querySelector("label").htmlFor === box.querySelector("input, select").id]);
  document.getElementById("theme").click();
  await frame();
  const field = getComputedStyle(document.querySelector("#controls select"));
  seen.dark = [field.color, field.backgroundColor];
});
