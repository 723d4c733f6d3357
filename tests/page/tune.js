// A page of tune: the marks, and other runs' lanes beside those of the best.
"use strict";

see(async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const runs = () => [...new Set(report.timeline.model.lanes.map((lane) => lane.run.label))];
  seen.failure = document.getElementById("failure").textContent;
  seen.points = all("#frontier-chart circle").length;
  seen.marks = all("#frontier-chart path.mark").length;
  seen.badges = all("#table-rows .badge").map((each) => each.textContent);
  seen.title = document.getElementById("run-title").textContent;
  const beside = document.getElementById("beside");
  seen.beside = [...beside.options].map((option) => option.textContent);
  seen.laneRuns = runs();
  const add = async (name) => {
    beside.value = [...beside.options].find((option) => option.textContent === name).value;
    beside.dispatchEvent(new Event("change"));
    await frame();
  };
  await add("3");
  await add("own");
  seen.laneRunsBeside = runs().sort();
  seen.tableBeside = all("#beside-table tbody td:first-child").map((each) => each.textContent);
  all("#besides button")[0].click();
  await frame();
  seen.laneRunsLess = runs().sort();
  const rules = all("#runs-table tbody button").find((each) =>
    each.textContent.startsWith("rules: "));
  rules.click();
  await frame();
  seen.laneRunsOfRules = runs().sort();
});
