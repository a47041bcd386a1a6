// Runs models in ONNX Runtime: node onnx.js JOBS.json, where JOBS is a list of
// {model, input: file of little-endian numbers, type, shape}. On stdout a list
// of {name: {dims, data}}, a result of each.
"use strict";

// The library would fetch its code; without fetch it reads the file beside it.
globalThis.fetch = undefined;
const fs = require("fs");
const ort = require("onnxruntime-web");

const ARRAYS = {uint8: Uint8Array, float32: Float32Array};

async function run({model, input, type, shape}) {
  const session = await ort.InferenceSession.create(model, {executionProviders: ["wasm"]});
  const bytes = fs.readFileSync(input);
  const data = new ARRAYS[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const results = await session.run({[session.inputNames[0]]: new ort.Tensor(type, data, shape)});
  return Object.fromEntries(session.outputNames.map((name) =>
    [name, {dims: results[name].dims, data: Array.from(results[name].data, Number)}]));
}

async function main() {
  ort.env.wasm.numThreads = 1;
  const out = [];
  for (const job of JSON.parse(fs.readFileSync(process.argv[2], "utf8"))) out.push(await run(job));
  fs.writeSync(1, JSON.stringify(out) + "\n");
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
