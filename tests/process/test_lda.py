"""Topic models from files: train, look at the topics, evaluate, resume."""
import json

from harness import Case


def lda_config(**stop):
    return {
        "name": "small-lda",
        "app": {"name": "lda", "data": "docs.txt", "vocab": "words.txt",
                "topics": 4, "clock": 5},
        "cluster": {"workers": 1},
        "stop": {"max_epochs": 20, **stop},
        "seed": 7,
    }


class Lda(Case):
    def setUp(self):
        super().setUp()
        spec = "gen:bow?docs=150&words=60&tokens=6000&topics=4&beta=0.1"
        self.assert_code(self.mltune("data", "gen", spec, "docs.txt"), 0)
        self.write("words.txt", "".join(f"word{i}\n" for i in range(60)))

    def run_it(self, *more):
        self.write("config.json", lda_config())
        done = self.mltune("run", "config.json", "--json", *more)
        self.assert_code(done, 0)
        return done.result

    def test_a_run_learns_and_its_topics_are_shown(self):
        """Perplexity falls, the model counts every token once, the top words
        are those of the table."""
        import numpy
        result = self.run_it()
        self.assertEqual(result["status"], "finished")
        self.assertLess(result["best"]["metric"], 45)
        model = self.folder / result["model"]
        words = numpy.load(model / "word_topic.npy")
        totals = numpy.load(model / "topic_total.npy")
        self.assertEqual(words.shape, (60, 4))
        self.assertTrue((words.sum(0) == totals[0]).all())
        shown = self.mltune("topics", result["model"], "--words", "3")
        self.assert_code(shown, 0)
        lines = shown.out.splitlines()
        self.assertEqual(len(lines), 4)
        largest = int(lines[0].split()[0])
        self.assertEqual(totals[0, largest], totals.max())
        top = int(lines[0].split()[3].removeprefix("word"))
        self.assertEqual(words[top, largest], words[:, largest].max())
        whole = json.loads(
            self.mltune("topics", result["model"], "--json").out)
        self.assertEqual(len(whole["topics"]), 4)
        self.assertTrue(whole["vocabulary"])
        # A run stands for its model, as elsewhere.
        by_run = self.mltune("topics", result["run"], "--words", "3")
        self.assertEqual((by_run.code, by_run.out), (0, shown.out))
        self.assertEqual(sum(t["tokens"] for t in whole["topics"]),
                         totals.sum())

    def test_a_model_is_evaluated_on_other_documents(self):
        result = self.run_it()
        done = self.mltune("eval", result["model"], "docs.txt", "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["metric_name"], "perplexity")
        self.assertLess(done.result["metric"], 45)

    def test_two_runs_are_the_same_to_the_last_bit(self):
        """One worker: no decision reads a clock."""
        results = [self.run_it("--state", f"state{turn}") for turn in range(2)]
        self.assertEqual(results[0]["loss"], results[1]["loss"])
        self.assertEqual(results[0]["metric"], results[1]["metric"])

    def test_what_is_no_topic_model_has_no_topics(self):
        done = self.mltune("topics", "nothing")
        self.assert_code(done, 74)
        self.assertIn("expected a model folder (with model.json in it) or a "
                      "run of ", done.err)
        (self.folder / "bad").mkdir()
        self.write("bad/topics.json", "{\"topics\": 3}")
        done = self.mltune("topics", "bad")
        self.assert_code(done, 78)
        self.assertIn("expected topics as lda writes them", done.err)
        self.assert_code(self.mltune("topics", "bad", "--words", "0"), 2)

    def test_data_that_does_not_fit_is_refused(self):
        self.write("words.txt", "one\ntwo\n")
        self.write("config.json", lda_config())
        done = self.mltune("run", "config.json")
        self.assert_code(done, 78)
        self.assertIn("words.txt: 2 words", done.err)
