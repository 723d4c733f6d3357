// Steps for tests/page/browse.js: how long a live page takes to its first answer, and from a
// control's change to the figures and to the last picture, medians of nine.
"use strict";

// The page counts its answers in report.live.answered. When it has also asked which values of the
// controls to offer, and so rests, it sets report.live.offered to that count.
see(async () => {
  const settle = async (count) => {
    while ((report.live.answered || 0) < count || report.live.busy) await pause(1);
  };
  await settle(1);
  seen.first = performance.now();
  while (report.live.offered !== report.live.answered) await pause(10);
  const input = document.getElementById("control-cluster.nic_Gbitps");
  const figures = [], times = [];
  for (let i = 0; i < 9; ++i) {
    const before = report.live.answered;
    const began = performance.now();
    input.value = String(150 + 50 * i);
    input.dispatchEvent(new Event("change"));
    while (report.live.answered === before) await pause(1);
    figures.push(performance.now() - began);
    await settle(before + 1);
    times.push(performance.now() - began);
    while (report.live.offered !== report.live.answered) await pause(10);
  }
  seen.figures = d3.median(figures);
  seen.control = d3.median(times);
});
