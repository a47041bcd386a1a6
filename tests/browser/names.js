// Checks that every name in the page's modules is defined or imported, and that
// what is imported is exported:
//
//   node names.js FOLDER
//
// TypeScript's compiler resolves the names; of what else it says about types
// nothing is asked. The browser's own names are those of its DOM library.
"use strict";

const fs = require("fs");
const path = require("path");
const ts = require("typescript");

// Diagnostics that are about names: not found (with and without a guess), a
// module that is not there or has no such export, used before it is defined,
// declared twice. Those below 2000 are of syntax.
const NAMES = new Set([2300, 2304, 2305, 2307, 2451, 2448, 2552, 2724, 18004]);

const folder = process.argv[2];
const files = fs.readdirSync(folder).filter((f) => f.endsWith(".js")).map((f) => path.join(folder, f));
if (files.length === 0) throw new Error("no module in " + folder);
const program = ts.createProgram(files, {allowJs: true, checkJs: true, noEmit: true, types: [],
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022,
  moduleResolution: ts.ModuleResolutionKind.Node10, lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"]});
const faults = files.map((f) => program.getSourceFile(f))
  .flatMap((f) => [...program.getSyntacticDiagnostics(f), ...program.getSemanticDiagnostics(f)])
  .filter((d) => d.code < 2000 || NAMES.has(d.code));
for (const d of faults) {
  const {line} = d.file.getLineAndCharacterOfPosition(d.start);
  console.error(path.relative(".", d.file.fileName) + ":" + (line + 1) + ": " +
    ts.flattenDiagnosticMessageText(d.messageText, " "));
}
process.exit(faults.length ? 1 : 0);
