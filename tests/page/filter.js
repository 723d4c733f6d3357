// A page of a table: which rows each filter shows, and what is said of conditions it leaves out.
"use strict";

see(async () => {
  const filters = ["tokens > 200,000", "tokens >= 200,000", "tokens < 100k", "MFU > 9",
    "mfu < 9 %, tokens > 100,000", "memory < 10", "memory < 10 GiB and tp = 2",
    "memory > 10240 MiB", "iteration < 250 ms", "days p95 < 10 days", "tp=1", "251,000",
    "unfragmented", "fits = no", "days < 10", "nosuch < 5", "tokens > abc, tp = 1", "fits < 5"];
  seen.rows = {};
  seen.leftOut = {};
  for (const filter of filters) {
    type(document.getElementById("table-filter"), filter);
    seen.rows[filter] = [...document.querySelectorAll("#table-rows tbody tr")].map((row) =>
      row.cells[0].textContent).join(" ");
    seen.leftOut[filter] = document.getElementById("table-left-out").textContent;
  }
});
