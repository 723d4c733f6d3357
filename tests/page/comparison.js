// A page of two traces: their lanes one below the other, and the numbers of what differs.
"use strict";

see(async () => {
  seen.lanes = report.timeline.lanes.map((lane) =>
    `${lane.rank.number} ${lane.name} ${lane.run.label}`);
  seen.values = valuesIn(document.getElementById("comparison"));
  seen.splitRows = document.querySelectorAll("#split-chart .row").length;
});
