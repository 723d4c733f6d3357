// A page with a picture of the cluster: what of it is to be seen.
"use strict";

see(async () => {
  await frame();
  const section = document.getElementById("cluster-section");
  const picture = document.querySelector("#cluster svg");
  seen.failure = document.getElementById("failure").hidden ? "" : "shown";
  seen.hidden = section.hidden;
  if (!picture) return;
  const box = picture.getBoundingClientRect();
  seen.width = box.width;
  seen.height = box.height;
  seen.texts = [...picture.querySelectorAll("text")].map((text) => text.textContent);
  seen.switches = picture.querySelectorAll(".switch").length;
  seen.links = picture.querySelectorAll("path").length;
  const outside = (part) => {
    const own = part.getBoundingClientRect();
    return own.left < box.left || own.right > box.right || own.top < box.top || own.bottom > box.bottom;
  };
  seen.outside = [...picture.querySelectorAll("rect")].filter(outside).length;
});
