// Any page: how it lies, and what of its tables and charts can only be seen by scrolling.
"use strict";

see(async () => {
  seen.scrolls = ["parallel-chart", "table-rows", "runs-table"].filter((id) => {
    const {scrollWidth, clientWidth} = document.getElementById(id);
    return scrollWidth > clientWidth;
  });
});
