// Any page: nothing to do but to see how it lies.
"use strict";

see(async () => {});
