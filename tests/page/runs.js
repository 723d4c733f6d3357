// A page of several runs: what its table says of each, the note, the warnings, the chosen run.
"use strict";

see(async () => {
  const texts = (selector) => [...document.querySelectorAll(selector)].map((each) =>
    each.textContent);
  seen.columns = texts("#runs-table thead button");
  seen.rows = [...document.querySelectorAll("#runs-table tbody tr")].map((row) =>
    [...row.cells].map((cell) => cell.textContent));
  seen.bad = texts("#runs-table td.bad");
  seen.note = document.getElementById("note").textContent;
  seen.noteShown = !document.getElementById("note").hidden;
  seen.warnings = texts("#runs-warnings li");
  seen.figures = texts("#numbers dt");
  document.querySelectorAll("#runs-table tbody button")[1].click();
  await frame();
  seen.iterationOfSecond = document.querySelector("#numbers > div").textContent;
  seen.figuresOfSecond = texts("#numbers dt");
  seen.warningsOfSecond = texts("#warnings li");
});
