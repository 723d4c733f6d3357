// A page of size: a frontier a job, and one job alone.
"use strict";

see(async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const count = () => document.getElementById("table-count").textContent;
  const drawn = () => ["circle", "path.frontier", "path.mark"].map((kind) =>
    all(`#frontier-chart ${kind}`).length);
  seen.failure = document.getElementById("failure").textContent;
  [seen.points, seen.frontiers, seen.marks] = drawn();
  const select = document.getElementById("table-group");
  seen.groups = [...select.options].map((option) => option.textContent);
  select.selectedIndex = 2;
  select.dispatchEvent(new Event("change"));
  await frame();
  seen.count = count();
  seen.jobs = [...new Set(all("#table-rows tbody tr").map((row) => row.cells[0].textContent))];
  [seen.pointsOfOne, seen.frontiersOfOne, seen.marksOfOne] = drawn();
  document.getElementById("table-reset").click();
  await frame();
  seen.countAgain = count();
});
