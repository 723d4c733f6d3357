// A page of size: its sentences, the bars of the picture, its tables; a frontier a job, and one job
// alone.
"use strict";

see(async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const count = () => document.getElementById("table-count").textContent;
  const drawn = () => ["circle", "path.frontier", "path.mark"].map((kind) =>
    all(`#frontier-chart ${kind}`).length);
  seen.failure = document.getElementById("failure").textContent;
  seen.said = ["purchase-best", "purchase-answers", "purchase-warnings"].map((id) =>
    document.getElementById(id).innerText).join("\n");
  // Where days lie by the ticks of the axis alone, and where bars begin and end.
  seen.pictures = all("#purchase-pictures .chart").map((chart) => {
    const middle = (element) => {
      const {left, right} = element.getBoundingClientRect();
      return (left + right) / 2;
    };
    const ticks = [...chart.querySelectorAll(".days .tick")].map((tick) =>
      [Number(tick.textContent), middle(tick.querySelector("line"))]);
    const deadline = chart.querySelector("line.deadline");
    return {
      ticks: [ticks[0], ticks[ticks.length - 1]],
      deadline: deadline && middle(deadline),
      limits: [...chart.querySelectorAll("text.limit")].map((text) => text.textContent),
      labels: [...chart.querySelectorAll(".label text")].map((text) => text.textContent),
      bars: [...chart.querySelectorAll("g.bar")].map((bar) => {
        const {x, width} = bar.querySelector("rect").getBBox();
        const {left} = chart.querySelector("svg").getBoundingClientRect();
        const dot = bar.querySelector("circle");
        return {left: left + x, right: left + x + width, dot: dot && middle(dot),
          machine: report.purchase.data.machines.indexOf(bar.__data__.machine),
          best: bar.classList.contains("best"), out: bar.classList.contains("out")};
      }).sort((a, b) => a.machine - b.machine)};
  });
  seen.tornado = all("#tornado .tornado").length;
  seen.rows = ["machines", "networks", "plans", "tiers"].map((id) =>
    all(`#${id} tbody tr`).map((row) => [...row.cells].map((cell) => cell.textContent)));
  seen.assumed = all("#assumed dt").map((name) => name.textContent);
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
