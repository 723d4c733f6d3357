// Asks the engine in node: node answers.js TANDEM.JS REQUESTS prints an answer a line.
'use strict';

const fs = require('fs');
const path = require('path');

const [program, requests] = process.argv.slice(2).map((file) => path.resolve(file));
const wasmBinary = fs.readFileSync(program.replace(/js$/, 'wasm'));
require(program)({wasmBinary}).then((engine) => {
  for (const request of fs.readFileSync(requests, 'utf8').split('\n').filter(Boolean)) {
    const text = engine.ccall('tandem_answer', 'number', ['string'], [request]);
    fs.writeSync(1, `${engine.UTF8ToString(text)}\n`);
    engine._free(text);
  }
});
