// What the settings view reckons of the server's answers, without drawing: reads
// [{survey, specs}] on stdin, tells [{name: share, …}] on stdout:
//
//   node importance.js < cases.json
"use strict";

const fs = require("fs");
const {openModules, tell} = require("./person.js");

async function reckons(cases) {
  const {axesOf, judgedOf, learnt} = await import("/learn.js");
  return cases.map(({survey, specs}) => {
    const judged = judgedOf(survey), found = learnt(judged, axesOf(judged, specs));
    return Object.fromEntries(found.names.map((name, i) => [name, found.shares[i].mean]));
  });
}

tell(async (browser, page) => {
  await openModules(page, "http://page.test");
  console.log(JSON.stringify(await page.evaluate(reckons, JSON.parse(fs.readFileSync(0)))));
});
