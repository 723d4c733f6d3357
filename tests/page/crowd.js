// A page of very many events: what frames at all zooms draw, and how long they take here.
"use strict";

see(async () => {
  const timeline = report.timeline;
  seen.events = timeline.model.events;
  seen.frames = [];
  const {end} = timeline.model;
  for (const share of [1, 0.5, 0.1, 0.01, 1e-3, 1e-4]) {
    for (const at of [0, 0.3, 0.7]) {
      timeline.zoomTo(at * end, (at + share * (1 - at)) * end);
      const begin = performance.now();
      timeline.drawNow();
      seen.frames.push({share, ms: performance.now() - begin, plot: timeline.picture.plot,
        ...timeline.picture.counts});
    }
  }
});
