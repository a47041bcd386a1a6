// Checks the OpenAPI description on stdin against OpenAPI's own schema, and that
// all its references lead somewhere: node openapi.mjs <description.json

import fs from "node:fs";
import {Validator} from "@seriousme/openapi-schema-validator";

const validator = new Validator({strict: false});
const document = JSON.parse(fs.readFileSync(0, "utf8"));
const found = await validator.validate(document);
if (!found.valid) {
  console.error(JSON.stringify(found.errors, null, 1).slice(0, 4000));
  process.exit(1);
}
if (validator.version !== "3.1") throw new Error("version " + validator.version);
const at = (pointer) => pointer.slice(2).split("/").map((s) => s.replaceAll("~1", "/").replaceAll("~0", "~"))
  .reduce((o, name) => o?.[name], document);
(function follow(value) {
  if (typeof value !== "object" || value === null) return;
  if (typeof value.$ref === "string" && (!value.$ref.startsWith("#/") || at(value.$ref) === undefined))
    throw new Error("nothing at " + value.$ref);
  Object.values(value).forEach(follow);
})(document);
