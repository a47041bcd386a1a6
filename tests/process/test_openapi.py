"""A client that knows nothing of the interface but its description: it performs
every operation, and every answer is what was described."""
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import harness
import test_serve
from harness import ROOT

MODULES = ROOT / "tests/browser/node_modules"


# What only tells readers something.
TOLD = {"format", "description", "examples", "default", "pattern",
        "contentMediaType", "contentSchema", "title", "$schema"}
CHECKED = {"type", "properties", "required", "items", "enum", "anyOf", "oneOf",
           "allOf", "if", "then", "const", "additionalProperties", "minimum",
           "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
           "maxLength", "minItems", "maxItems", "minProperties",
           "maxProperties", "propertyNames"}


def combined(schema, value, document, at):
    """Faults by schemas that are joined to others: these say of an object what
    they know, and nothing against the rest."""
    def of(part):
        return faults(part, value, document, at, whole=False)

    found = []
    if "anyOf" in schema and all(
            faults(s, value, document, at) for s in schema["anyOf"]):
        found.append(f"{at}: {value!r} is none of {schema['anyOf']}")
    if "oneOf" in schema and sum(not of(s) for s in schema["oneOf"]) != 1:
        found.append(f"{at}: {value!r} is not one of {schema['oneOf']}")
    for part in schema.get("allOf", []):
        found += of(part)
    if "if" in schema and "then" in schema and not of(schema["if"]):
        found += of(schema["then"])
    return found


def members(schema, value, document, at, whole):
    """Faults of an object's members, and of those that it lacks."""
    found = [f"{at}: no {name}" for name in schema.get("required", [])
             if name not in value]
    more = schema.get("additionalProperties")
    for name, member in value.items():
        if name in schema.get("properties", {}):
            found += faults(schema["properties"][name], member, document,
                            f"{at}/{name}")
        elif more is False:
            found.append(f"{at}: {name} is too much")
        elif isinstance(more, dict):
            found += faults(more, member, document, f"{at}/{name}")
        elif "properties" in schema and more is None and whole:
            found.append(f"{at}: {name} is not described")
    return found


def faults(schema, value, document, at="", whole=True):
    """What is wrong with @value by the JSON schema @schema, as texts. The words
    that the description uses, by the specification's (draft 2020-12); but an
    answer has no members that are not described."""
    if "$ref" in schema:
        target = document
        for word in schema["$ref"][2:].split("/"):
            target = target[word]
        return faults(target, value, document, at, whole)
    found = [f"{at}: unknown word {w}" for w in schema.keys() - TOLD - CHECKED
             if not w.startswith("x-")]
    found += combined(schema, value, document, at)
    if value not in schema.get("enum", [value]):
        found.append(f"{at}: {value!r} is not in {schema['enum']}")
    if value != schema.get("const", value):
        found.append(f"{at}: {value!r} is not {schema['const']!r}")
    found += type_faults(schema, value, at)
    if isinstance(value, dict):
        found += members(schema, value, document, at, whole)
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
        if operation["security"]:
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
        described = responses.get(str(status)) or responses.get(
            f"{status // 100}XX") or responses["default"]
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


def tool(name, *words, folder, code=0):
    """What a program of the locked packages says."""
    done = subprocess.run(
        ["node", MODULES / name, *words], cwd=folder, text=True, timeout=500,
        env={**os.environ, "REDOCLY_TELEMETRY": "off",
             "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != code:
        raise AssertionError(f"{name}: {done.returncode}\n{done.stdout}")
    return done.stdout


class Generated(test_serve.Service):
    def describe(self, change=lambda document: None):
        """The description as a file."""
        document = self.get("/openapi.json")
        change(document)
        self.write("openapi.json", document)

    def test_the_linter_finds_nothing(self):
        """By all of its recommended rules, warnings too; and it does find
        what it is to find."""
        words = ("lint", "--extends", "recommended-strict", "openapi.json")
        self.describe()
        tool("@redocly/cli/bin/cli.js", *words, folder=self.folder)
        self.describe(lambda document: document["paths"]["/api/v1/runs"]
                      ["get"].pop("security"))
        said = tool("@redocly/cli/bin/cli.js", *words, folder=self.folder,
                    code=1)
        self.assertIn("security-defined", said)

    def test_a_typescript_client_compiles_and_runs(self):
        """tests/browser/client.ts knows the generated types alone: it submits a
        run, follows its events by kind, stops it and reads what came of it.
        Its two mistakes on purpose are errors to the compiler."""
        self.describe()
        (self.folder / "node_modules").symlink_to(MODULES)
        shutil.copy(ROOT / "tests/browser/client.ts", self.folder)
        self.write("package.json", {"type": "module"})
        self.write("tsconfig.json", {
            "files": ["client.ts"],
            "compilerOptions": {
                "strict": True, "module": "nodenext", "target": "es2022",
                "lib": ["es2022", "dom"], "types": [], "skipLibCheck": True}})
        tool("openapi-typescript/bin/cli.js", "openapi.json",
             "--default-non-nullable", "false", "--empty-objects-unknown",
             "-o", "api.d.ts", folder=self.folder)
        tool("typescript/bin/tsc", "-p", ".", folder=self.folder)
        url = "http://%s:%d" % self.address
        done = subprocess.run(
            ["node", "client.js", url, self.token], cwd=self.folder,
            text=True, capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        now = self.run_now(said["run"])
        self.assertEqual((said["valid"], said["command"], said["refused"]),
                         (True, "stop", "run_not_found"))
        self.assertEqual((said["status"], said["reason"], said["name"]),
                         ("stopped", "stopped", "typed"))
        self.assertEqual(said["epochs"], now["epochs"])
        self.assertGreater(said["seen"]["epochs"], 0)
        self.assertGreaterEqual(said["tried"], said["seen"]["trials"])
        self.assertIn("converging", said["seen"]["labels"])


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

        do("validate_configuration")
        do("upload_data")
        run = do("submit_run")["run"]
        client.known["run"] = run
        do("change_limits")
        self.wait_for_status(run, "training")
        do("suggest_settings")
        for name in sorted(left):
            # A model is there once the run has ended.
            if client.operations[name][0] == "GET" and \
                    name != "download_model":
                do(name)
                client.known["run"] = run
        client.known["branch"] = str(self.run_now(run)["branch"])
        branch = client.known["branch"]
        do("fork_branch")
        self.assertNotEqual(client.known["branch"], branch)
        do("free_branch")
        client.known["branch"] = str(self.run_now(run)["branch"])
        do("fork_branch")
        do("promote_branch")
        do("add_to_row")
        for name in ("pause", "continue", "snapshot", "retune", "stop"):
            do(f"{name}_run")
        self.wait_for_status(run, "stopped")
        do("download_model")
        do("annotate_run")
        do("delete_run")
        code, _, _ = self.ask("POST", "/api/v1/data/half.csv?size=9", b"x")
        self.assertEqual(code, 200)
        client.known["upload"] = "half.csv"
        do("delete_upload")
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

    def test_names_of_operations_are_words(self):
        """A verb first, and no path in them."""
        client = Stranger(self.address, self.token)
        for name in client.operations:
            self.assertRegex(name, "^(get|list|follow|export|download|submit|"
                             "validate|pause|continue|stop|retune|snapshot|"
                             "change|fork|suggest|promote|free|delete|annotate|"
                             "read|add|upload)(_[a-z]+)+$")
            self.assertNotIn("_runs_", name)

    def test_a_configuration_is_checked_by_its_schema_alone(self):
        """What the service refuses, whoever has the description refuses."""
        client = Stranger(self.address, self.token)
        schema = {"$ref": "#/components/schemas/configuration"}
        good = harness.mlr_config()
        self.assertEqual(faults(schema, good, client.document), [])
        for bad in ({**good, "stop": {"max_epoch": 3}},
                    {**good, "app": {"name": "mlr"}},
                    {**good, "app": {"name": "lad", "data": "gen:bow"}},
                    {**good, "tuner": {"strategy": "asha",
                                       "strategy_settings": {"eta": "x"}}}):
            self.assertNotEqual(faults(schema, bad, client.document), [], bad)

    def test_parameters_are_those_of_the_method(self):
        """Where a piece belongs is nothing to ask about an upload."""
        client = Stranger(self.address, self.token)
        for name, want in (("get_upload", {"upload"}),
                           ("delete_upload", {"upload"}),
                           ("upload_data",
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
