// A page of a table with a limit: the line, what lies beyond, how far the others spread.
"use strict";

see(async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const svg = document.querySelector("#frontier-chart svg");
  seen.plot = Number(svg.getAttribute("width"));
  seen.points = all("#frontier-chart circle").map((each) => Number(each.getAttribute("cx")));
  seen.beyond = all("#frontier-chart path.beyond").length;
  seen.lines = all("#frontier-chart line.capacity").map((each) => Number(each.getAttribute("x1")));
  seen.note = document.getElementById("frontier-note").textContent;
  seen.legend = all("#frontier-legend span").map((each) => each.textContent);
  // Without the limit's column there is no line, and no edge.
  document.getElementById("table-x").value = "2";
  document.getElementById("table-x").dispatchEvent(new Event("change"));
  await frame();
  seen.linesElsewhere = all("#frontier-chart line.capacity").length;
  seen.pointsElsewhere = all("#frontier-chart circle").length;
});
