// A page of several orders: their timelines on one time axis, by their start and by a microbatch.
"use strict";

see(async () => {
  const choose = async (id, text) => {
    const select = document.getElementById(id);
    select.value = [...select.options].find((option) => option.textContent === text).value;
    select.dispatchEvent(new Event("change"));
    await frame();
  };
  const lanes = () => report.timeline.model.lanes.filter((lane) => lane.computes);
  const starts = () => ["1f1b", "gpipe", "zb1p"].map((name) => d3.min(
    lanes().filter((lane) => lane.run.label === name), (lane) => lane.startOf(3)));
  const told = () => lanes().map((lane) => lane.facts(0).find(([name]) => name === "Start")[1]);
  await choose("beside", "gpipe");
  await choose("beside", "zb1p");
  seen.rows = [...document.querySelectorAll("#beside-table tbody tr")].map((row) =>
    row.cells[0].textContent);
  seen.starts = starts();
  seen.told = told();
  seen.end = report.timeline.model.end;
  await choose("align", "microbatch 3");
  seen.aligned = starts();
  seen.toldAligned = told();
  seen.endAligned = report.timeline.model.end;
});
