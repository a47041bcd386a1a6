"""A client that knows nothing of the interface but its description: it performs
every operation, and every answer is what was described."""
import http.client
import json
import pathlib
import re
import time

import test_serve


def faults(schema, value, document, at=""):
    """What is wrong with @value by the JSON schema @schema, as texts. The words
    that the description uses, by the specification's (draft 2020-12)."""
    if "$ref" in schema:
        target = document
        for word in schema["$ref"][2:].split("/"):
            target = target[word]
        return faults(target, value, document, at)
    known = {"type", "properties", "required", "items", "enum", "anyOf",
             "additionalProperties", "minimum", "maximum", "format",
             "description", "pattern", "minLength", "maxLength", "examples",
             "minItems", "maxItems"}
    found = [f"{at}: unknown word {w}" for w in schema.keys() - known]
    if "anyOf" in schema and all(
            faults(s, value, document, at) for s in schema["anyOf"]):
        found.append(f"{at}: {value!r} is none of {schema['anyOf']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is not in {schema['enum']}")
    found += type_faults(schema, value, at)
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                found.append(f"{at}: no {name}")
        for name, member in value.items():
            if name in schema.get("properties", {}):
                found += faults(schema["properties"][name], member, document,
                                f"{at}/{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{at}: {name} is too much")
            elif "properties" in schema:
                found.append(f"{at}: {name} is not described")
    if isinstance(value, list) and not schema.get("minItems", 0) <= \
            len(value) <= schema.get("maxItems", len(value)):
        found.append(f"{at}: {len(value)} items")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += faults(schema["items"], item, document, f"{at}/{i}")
    return found


TYPES = {"string": str, "object": dict, "array": list, "boolean": bool,
         "null": type(None), "number": (int, float), "integer": int}


def type_faults(schema, value, at):
    types = schema.get("type")
    if types is None:
        return []
    types = types if isinstance(types, list) else [types]
    fits = any(isinstance(value, TYPES[t]) and
               (t == "boolean" or not isinstance(value, bool)) for t in types)
    found = [] if fits else [f"{at}: {value!r} is no {types}"]
    if fits and schema.get("format") == "date-time" and not re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", value):
        found.append(f"{at}: {value!r} is no time")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= \
                schema.get("maximum", value):
            found.append(f"{at}: {value!r} is out of range")
    return found


class Stranger:
    """The client. @known: what members of answers were last; variables of
    paths, and `run` of queries, are members of that name, as the description
    says."""

    def __init__(self, address, token):
        self.address, self.token = address, token
        self.known = {}
        self.document = self.send("GET", "/openapi.json", None, {})[2]
        self.operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()}

    def send(self, method, target, body, headers):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, target, body, headers)
            reply = connection.getresponse()
            text = reply.read()
            kind = (reply.headers["Content-Type"] or "").split(";")[0]
            return reply.status, kind, (
                json.loads(text) if kind.endswith("json") else text)
        finally:
            connection.close()

    def learn(self, value):
        if isinstance(value, list):
            for item in value:
                self.learn(item)
        if isinstance(value, dict):
            for name, member in value.items():
                if isinstance(member, (str, int)) and \
                        not isinstance(member, bool):
                    self.known[name] = str(member)
                self.learn(member)

    def target(self, path, operation):
        query = []
        for parameter in operation["parameters"]:
            name, schema = parameter["name"], parameter["schema"]
            if parameter["in"] == "path":
                value = self.known.get(name) or str(
                    schema.get("minimum", schema.get("examples", [None])[0]))
                path = path.replace("{%s}" % name, value)
            elif name == "run":
                query.append(f"run={self.known[name]}")
            # A stream has no end: what is past a number has one.
            elif name == "after" and "text/event-stream" in \
                    operation["responses"]["200"]["content"]:
                query.append(f"after={schema['minimum']}")
        return path + ("?" + "&".join(query) if query else "")

    def perform(self, name):
        """Status and answer; what it is, is as described."""
        method, path, operation = self.operations[name]
        headers, body = {}, None
        if "security" in operation:
            headers["Authorization"] = f"Bearer {self.token}"
        if "requestBody" in operation:
            kind, content = next(
                iter(operation["requestBody"]["content"].items()))
            headers["Content-Type"] = kind
            if kind == "application/json":
                wrong = faults(content["schema"], content["example"],
                               self.document)
                assert not wrong, (name, wrong)
                body = json.dumps(content["example"])
            else:
                body = "a,b\n1,2\n"
        status, kind, answer = self.send(
            method, self.target(path, operation), body, headers)
        responses = operation["responses"]
        described = responses.get(str(status)) or responses["default"]
        if "$ref" in described:
            described = self.document["components"]["responses"]["problem"]
        content = described["content"]
        assert kind in content or "*/*" in content, (name, kind, answer)
        schema = content.get(kind, {}).get("schema")
        wrong = faults(schema, answer, self.document) if schema else []
        assert not wrong, (name, status, wrong[:5])
        if status < 300 and kind == "application/json":
            self.learn(answer)
        return status, answer, bool(schema)


class Described(test_serve.Service):
    OPTIONS = ("--slots", "2")

    def test_a_client_of_the_description_performs_every_operation(self):
        """Submits, reads, steers, forks, promotes and stops a run."""
        client = Stranger(self.address, self.token)
        left = set(client.operations)
        shaped = set()

        def do(name, want=(200, 201, 202)):
            """Until it is done: some things are not yet, for a while."""
            end = time.monotonic() + 60
            while True:
                status, answer, shape = client.perform(name)
                if status in want or time.monotonic() > end or \
                        answer.get("code") not in ("not_yet", "trial_not_found",
                                                   "branch_not_found",
                                                   "run_alive"):
                    break
                time.sleep(0.1)
            self.assertIn(status, want, (name, answer))
            left.discard(name)
            if shape:
                shaped.add(name)
            return answer

        do("post_runs_validate")
        do("post_data_upload")
        run = do("post_runs")["run"]
        client.known["run"] = run
        do("patch_runs_run")
        self.wait_for_status(run, "training")
        do("post_runs_run_trials_suggest")
        for name in sorted(left):
            # A model is there once the run has ended.
            if name.startswith("get_") and name != "get_runs_run_model":
                do(name)
                client.known["run"] = run
        client.known["branch"] = str(self.run_now(run)["branch"])
        branch = client.known["branch"]
        do("post_runs_run_branches_branch_fork")
        self.assertNotEqual(client.known["branch"], branch)
        do("post_runs_run_branches_branch_free")
        client.known["branch"] = str(self.run_now(run)["branch"])
        do("post_runs_run_branches_branch_fork")
        do("post_runs_run_branches_branch_promote")
        do("post_tables_table_rows_row_inc")
        for name in ("pause", "continue", "snapshot", "retune", "stop"):
            do(f"post_runs_run_{name}")
        self.wait_for_status(run, "stopped")
        do("get_runs_run_model")
        do("delete_runs_run")
        self.assertEqual(left, set())
        self.assertGreater(len(shaped), 25)

    def test_the_index_of_the_documents_has_every_route(self):
        """docs/http.md lists what the description has, and nothing else."""
        client = Stranger(self.address, self.token)
        described = {(method, path.removeprefix("/api/v1"))
                     for method, path, _ in client.operations.values()}
        page = (pathlib.Path(__file__).parents[2] /
                "docs/http.md").read_text()
        listed = set()
        for method, cell in re.findall(
                r"^\| ([A-Z]+) \| (`.*?) \|", page, re.M):
            for path in re.findall(r"`([^`]+)`", cell):
                listed.add((method, path.removeprefix("/api/v1")))
        self.assertEqual(described - listed, set())
        self.assertEqual(listed - described, set())

    def test_the_checker_finds_what_is_wrong(self):
        """Or it would not tell anything."""
        client = Stranger(self.address, self.token)
        schema = {"$ref": "#/components/schemas/version"}
        good = {"name": "a", "version": "b", "api": "c"}
        self.assertEqual(faults(schema, good, client.document), [])
        for bad in ({}, {**good, "api": 1}, {**good, "more": 1}, [], None):
            self.assertNotEqual(faults(schema, bad, client.document), [])
        nothing = {"$ref": "#/components/schemas/nothing"}
        self.assertNotEqual(faults(nothing, {"a": 1}, client.document), [])
        limits = {"$ref": "#/components/schemas/limits"}
        self.assertNotEqual(
            faults(limits, {"stop": {"max_epochs": 0}}, client.document), [])
        times = {"anyOf": [{"type": "string", "format": "date-time"},
                           {"type": "null"}]}
        self.assertEqual(faults(times, None, {}), [])
        self.assertNotEqual(faults(times, "today", {}), [])

    def test_parameters_are_those_of_the_method(self):
        """Where a piece belongs is nothing to ask about an upload."""
        client = Stranger(self.address, self.token)
        for name, want in (("get_data_upload", {"upload"}),
                           ("post_data_upload",
                            {"upload", "offset", "size", "anew"})):
            _, _, operation = client.operations[name]
            self.assertEqual({p["name"] for p in operation["parameters"]
                              if p["in"] != "header"}, want)
        refused = self.get("/api/v1/data/x?offset=1", 400)
        self.assertEqual(refused["code"], "invalid_parameter")

    def test_problems_are_described_too(self):
        """What is refused answers as the description says."""
        client = Stranger(self.address, self.token)
        client.known["run"] = "no-such-run"
        client.known["branch"] = client.known["trial"] = "1"
        client.known["suggestion"] = "1"
        for name, (_, path, operation) in client.operations.items():
            if any(p["name"] == "run" for p in operation["parameters"]):
                status, answer, _ = client.perform(name)
                self.assertEqual(status, 404, (name, answer))
                self.assertEqual(answer["code"], "run_not_found")
