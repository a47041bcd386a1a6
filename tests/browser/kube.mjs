// Validates a List of Kubernetes' objects, the file argv[2], against the schema of
// its API (kubernetes-models, made from it). Says what is wrong, a line each.
import {readFileSync} from "node:fs";
import {Job} from "kubernetes-models/batch/v1/Job";
import {Secret} from "kubernetes-models/v1/Secret";
import {Service} from "kubernetes-models/v1/Service";

const kinds = {Job, Secret, Service};
let wrong = 0;
for (const object of JSON.parse(readFileSync(process.argv[2], "utf8")).items) {
    try {
        if (!kinds[object.kind].is(object))
            throw new Error(`is no ${object.kind} by its apiVersion`);
        new kinds[object.kind](object).validate();
    } catch (error) {
        console.log(`${object.kind}: ${error.message}`);
        wrong++;
    }
}
process.exit(wrong ? 1 : 0);
