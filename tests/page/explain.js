// A page of causes: its sentence, its rows and where their bars stand.
"use strict";

see(async () => {
  await frame();
  seen.answer = document.getElementById("explain-answer").textContent;
  seen.rows = [...document.querySelectorAll(".waterfall tbody tr")].map((row) => {
    const track = row.querySelector(".track").getBoundingClientRect();
    const bar = row.querySelector(".step").getBoundingClientRect();
    return {what: row.querySelector("th").firstChild.textContent,
      seconds: Number(row.querySelector("data").value),
      left: (bar.left - track.left) / track.width, right: (bar.right - track.left) / track.width};
  });
  seen.ranks = document.querySelectorAll(".rank-cell").length;
  const slow = slowRanks({ranks_measured: [1, 1, 1.2, 1.01].map((compute_ratio, rank) =>
    ({rank, compute_ratio}))});
  seen.slow = [0, 1, 2, 3].map((rank) => rankOf({rank, stages: [rank], stands_for: 1}, slow).label);
  seen.lanes = report.timeline.lanes.map((lane) => `${lane.name} ${lane.run.label}`);
});
