// A live page in a frame that has no address of its own, as in a notebook.
"use strict";

see(async () => {
  const inside = document.querySelector("iframe").contentDocument;
  const told = async (id, pattern) => {
    const end = performance.now() + 60000;
    while (!pattern.test((inside.getElementById(id) || {}).textContent)) {
      if (performance.now() > end) throw new Error(`no ${pattern} in ${id}`);
      await pause(20);
    }
    return inside.getElementById(id).textContent;
  };
  await told("live-difference", /Change a value/);
  const control = inside.getElementById("control-parallel.micro_batch");
  control.value = "2";
  control.dispatchEvent(new Event("change"));
  seen.difference = await told("live-difference", /tokens/);
  seen.failure = inside.getElementById("live-failure").textContent;
});
