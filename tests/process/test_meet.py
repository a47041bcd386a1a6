"""Nodes that are started one by one, as another launcher would, and find each
other at an address: a tuner in Python, two processes, real sockets."""
import json
import os
import shutil
import socket
import tempfile
import unittest

from harness import Case, mlr_config

import zmq

SECONDS = 60


def free_port(after=0):
    """One that nobody has, below those that the system gives to others."""
    for tries in range(100 * after, 1000):
        port = 20000 + (os.getpid() + tries * 17) % 12000
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no port is free")


class Tuner:
    """Says the same to all nodes, and hears each."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mltune-tuner-")
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.setsockopt(zmq.RCVTIMEO, SECONDS * 1000)
        self.endpoint = f"ipc://{self.folder}/tuner"
        self.router.bind(self.endpoint)
        self.peers = []
        self.op = 0

    def close(self):
        self.router.close()
        self.context.term()
        shutil.rmtree(self.folder)

    def receive(self):
        """The next message that is no beat; a hello makes a peer."""
        while True:
            peer, text = self.router.recv_multipart()
            message = json.loads(text)
            if message["kind"] == "hello":
                self.peers.append(peer)
            if message["kind"] != "beat":
                return message

    def tell(self, kind, **members):
        self.op += 1
        text = json.dumps({"kind": kind, "op": self.op, **members}).encode()
        for peer in self.peers:
            self.router.send_multipart([peer, text])

    def answers(self):
        """Those of all nodes."""
        answers = []
        while len(answers) < len(self.peers):
            message = self.receive()
            if message["kind"] != "report":
                answers.append(message)
        return answers

    def ask(self, kind, **members):
        self.tell(kind, **members)
        return self.answers()


class Nodes(Case):
    """Nodes that a test starts, with a tuner of its own."""
    FAULTS = ("Sanitizer", "runtime error:", "Assertion")

    def setUp(self):
        super().setUp()
        self.tuner = Tuner()
        self.addCleanup(lambda: self.tuner.close())
        self.place = f"tcp://127.0.0.1:{free_port()}"

    def start_node(self, number, *words, tuner=None):
        tuner = tuner or self.tuner
        node = self.start("node", "--tuner", tuner.endpoint,
                          "--node", number, "--meet", self.place, *words)
        self.assertEqual(tuner.receive()["kind"], "hello")
        return node

    def send_config(self, tuner, nodes):
        config = mlr_config()
        config["app"]["data"] = "gen:digits?samples=300&size=8"
        config["cluster"] = {"nodes": nodes, "workers": 1}
        tuner.tell("config", config=config, seed=7, folder=str(self.folder))

    def send_config_to_last(self):
        """To the node that came last."""
        peers, self.tuner.peers = self.tuner.peers, self.tuner.peers[-1:]
        self.send_config(self.tuner, 2)
        self.tuner.peers = peers

    def configure(self, nodes=2):
        self.send_config(self.tuner, nodes)
        return self.tuner.answers()

    def end(self, *nodes):
        self.tuner.ask("stop", reason="test")
        for node in nodes:
            self.assert_code(self.finish(node, SECONDS), 0)
        self.assert_nothing_left()

    def failed(self, answers):
        return [a["reason"] for a in answers if a["kind"] == "failed"]


class Meet(Nodes):
    def test_nodes_meet_at_an_address_and_train(self):
        """Node 1 before node 0, where it listens left to it; a slice runs over
        both."""
        self.env["MLTUNE_KEY"] = "0123456789abcdef" * 4  # "*" is outside
        one = self.start_node(1, "--listen", "tcp://*:*")
        zero = self.start_node(0)
        self.assertEqual([a["kind"] for a in self.configure()],
                         ["ready", "ready"])
        answers = self.tuner.ask("fork", branch=1, parent=0, type="training",
                                 setting={"learning_rate": 0.1})
        self.assertEqual([a["kind"] for a in answers], ["forked", "forked"])
        answers = self.tuner.ask("schedule", branch=1, first=0, count=5,
                                 report_every=5)
        self.assertEqual([(a["kind"], a["clocks"]) for a in answers],
                         [("done", 5), ("done", 5)])
        self.end(zero, one)

    def test_two_nodes_of_one_number_are_told(self):
        """The second is refused, in words that say what to do. (A tuner takes
        one node of a number; so it has another.)"""
        other = Tuner()
        self.addCleanup(other.close)
        nodes = [self.start_node(0), self.start_node(1),
                 self.start_node(1, tuner=other)]
        self.send_config(self.tuner, 3)
        self.send_config(other, 3)
        poller = zmq.Poller()
        for tuner in (self.tuner, other):
            poller.register(tuner.router, zmq.POLLIN)
        answer = {"kind": ""}
        while answer["kind"] != "failed":
            events = dict(poller.poll(SECONDS * 1000))
            self.assertTrue(events, "nobody is refused")
            for tuner in (self.tuner, other):
                if tuner.router in events:
                    message = json.loads(tuner.router.recv_multipart()[1])
                    if message["kind"] != "beat":
                        answer = message
        self.assertIn("node 1 is there already", answer["reason"])
        self.assertIn("give each node a number of its own", answer["reason"])
        for node in nodes:  # the others wait for node 2
            node.terminate()
        for node in nodes:
            self.finish(node, SECONDS)
        self.assert_nothing_left()

    def test_port_in_use_is_told(self):
        """By node 0, before it loads anything."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.place = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            zero = self.start_node(0)
            reasons = self.failed(self.configure())
        self.assertEqual(len(reasons), 1)
        self.assertIn("Address already in use", reasons[0])
        self.assertIn("with a port that is free", reasons[0])
        self.finish(zero, SECONDS)
        self.assert_nothing_left()

    def test_address_that_is_none_is_told(self):
        self.place = "tcp://127.0.0.1"
        zero = self.start_node(0)
        reasons = self.failed(self.configure())
        self.assertEqual(len(reasons), 1)
        self.assertIn("expected tcp://HOST:PORT", reasons[0])
        self.finish(zero, SECONDS)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
