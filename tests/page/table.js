// A page of a table: the frontier, the filters by text and by brush, the sorting of rows.
"use strict";

see(async () => {
  const count = () => document.getElementById("table-count").textContent;
  const names = () => [...document.querySelectorAll("#table-rows tbody tr")].map((row) =>
    row.cells[0].textContent);
  seen.columns = report.data.table.columns.length;
  seen.all = names();
  seen.points = document.querySelectorAll("#frontier-chart circle").length;
  seen.onFrontier = document.querySelectorAll("#table-rows tr.chosen").length;
  type(document.getElementById("table-filter"), "cost < 25");
  seen.cheap = names();
  type(document.getElementById("table-filter"), "A100");
  seen.a100 = names();
  document.getElementById("table-reset").click();

  // The upper part of the cost axis is the cheap one, as less is better.
  const column = document.querySelectorAll("#parallel-chart .column")[2];
  const overlay = column.querySelector(".overlay");
  const {height} = overlay.getBoundingClientRect();
  mouse(overlay, "mousedown", 10, 1);
  mouse(overlay, "mousemove", 10, 0.6 * height);
  mouse(overlay, "mouseup", 10, 0.6 * height);
  await frame();
  seen.brushed = names();
  seen.brushedCount = count();
  document.getElementById("table-reset").click();
  document.querySelectorAll("#table-rows thead button")[2].click();
  seen.sorted = names();
  document.getElementById("table-x").value = "1";
  document.getElementById("table-x").dispatchEvent(new Event("change"));
  await frame();
  seen.pointsElsewhere = document.querySelectorAll("#frontier-chart circle").length;
});
