"""What strangers at full speed take of a core at a service's port: another account
of the machine, and another host, over TLS. All threads of the service count, which
has nothing to do besides, and is another one for each kind: what strangers may do
at once is there again. At the port of a run that trains the thread that they wake
counts. For the nodes of a run test_other_host.py asks it.
"""
import floods
import harness
import test_other_host
from test_access import need_root


class Run(harness.Case):
    def test_floods_of_another_account(self):
        """A run each, which trains on and ends as it was told to."""
        need_root(self)
        self.write("c.json", harness.endless_config())
        for kind in [k for k in floods.KINDS if k != "handshake"]:
            state = self.folder / kind
            run = self.start("run", "c.json", "--state", state)
            url, = self.wait_until(lambda: list(state.glob("runs/*/url")),
                                   "the run's address")
            text = self.wait_until(url.read_text, "the address").strip()
            flood = floods.Flood("plain", [text.rstrip("/").rpartition("/")[2]],
                                 **floods.nobody())
            self.addCleanup(flood.close)
            floods.ask_the_share(self, flood,
                                 lambda: floods.used(run.pid, ["http"]),
                                 kind, 1)
            flood.close()
            self.assertIsNone(run.poll())
            run.terminate()
            self.assert_code(self.finish(run), 143)
        self.assert_nothing_left()


class Service(harness.Case):
    def floods_at(self, way, host, kinds, enter=(), **options):
        """A service each; its user is served after the flood."""
        words = (("--tls-cert", "cert.pem", "--tls-key", "key.pem")
                 if way == "tls" else ())
        url = self.folder / ".mltune/serve.url"
        for kind in kinds:
            url.unlink(missing_ok=True)
            service = self.start("serve", "--listen", f"{host}:0", *words)
            # The name in it may be the certificate's.
            text = self.wait_until(lambda: url.exists() and url.read_text(),
                                   "the service")
            port = text.strip().rstrip("/").rpartition(":")[2]
            flood = floods.Flood(way, [f"{host}:{port}"], enter, **options)
            self.addCleanup(flood.close)
            floods.ask_the_share(self, flood,
                                 lambda: floods.used(service.pid), kind, 1)
            self.assert_code(self.mltune("ls"), 0)
            flood.close()
            service.terminate()
            self.assert_code(self.finish(service), 143)
        self.assert_nothing_left()

    def test_floods_of_another_account(self):
        """Junk on new connections, connections that are held, junk without end,
        requests."""
        need_root(self)
        self.floods_at("plain", "127.0.0.1",
                       [k for k in floods.KINDS if k != "handshake"],
                       **floods.nobody())

    def test_floods_of_another_host(self):
        """The same, and handshakes of TLS; requests come over TLS, too."""
        cable = test_other_host.Cable(self.mark)
        self.addCleanup(cable.remove)
        harness.make_certificate(self.folder)
        self.floods_at("tls", cable.here, floods.KINDS, cable.enter)
