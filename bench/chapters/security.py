"""What protection costs: TLS against Apache Kafka's TLS, log-ins a second, and ACLs against none.

Certificates are those of `broker-lite certs`: PEM for ours, the same in PKCS#12 for Kafka and for Kafka's tools.  The
tools' files are for both brokers the same.  A log-in is a new connection, SaslHandshake and the two messages of
SCRAM-SHA-256; the client salts its password once, because that work is the client's and would drown the server's.
"""

from __future__ import annotations

import hashlib
import hmac
import selectors
import socket
import statistics
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio

from bench import tools
from bench.chapter import Bench, Broker
from bench.measures import OURS, Measure, cost_of
from bench.peer import ApacheKafka, BrokerLite, cpu_seconds, free_port
from bench.raw import Connection, create_topic, frame, produce_error, produce_frame, string
from bench.small import Hammer
from broker_lite.cli import certs
from broker_lite.client.admin import set_password
from broker_lite.client.client import Client

TITLE = "Security"
WRITTEN = Measure("produce over TLS", "records/s", 0.8)
READ = Measure("consume over TLS", "records/s", 0.8)
LOGINS = Measure("SCRAM-SHA-256 log-ins, 8 at a time", "log-ins/s", 1.0)
ACLS = Measure("produce throughput that 100 ACLs cost", "%", less_is_better=True, limit=5.0)
ACLS_COST = Measure("processor time that 100 ACLs add to that", "%", less_is_better=True)
ACLS_SMALL = Measure("processor time that 100 ACLs add to a small produce", "%", less_is_better=True)

RULES = 100
AT_A_TIME = 8
TURN = 0.15
"""Seconds with and without ACLs by turns."""
USER, PASSWORD = "bench", "pencil"
HANDSHAKE, AUTHENTICATE = 17, 36
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def run(bench: Bench) -> None:
    folder = bench.folder / "certificates"
    certs.make(folder, ["localhost", "127.0.0.1"])
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in _trusting(folder).items()))
    for broker in bench.prepared():
        tls, sasl = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        _protect(broker, folder, tls, sasl)
        broker.start()
        _over_tls(bench, broker, tls, file)
        _log_ins(bench, broker, sasl)
    _acls(bench)


def _trusting(folder: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(folder / "truststore.p12"),
        "ssl.truststore.password": certs.PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }


def _protect(broker: Broker, folder: Path, tls: str, sasl: str) -> None:
    """A plain listener, where it always is, one with TLS and one with log-ins."""
    if isinstance(broker, BrokerLite):
        store = f"ssl.keystore.location={folder / 'server.pem'}"
        broker.arguments = ("--listen", f"SSL://{tls}", "--listen", f"SASL_PLAINTEXT://{sasl}", "--set", store)
        return
    assert isinstance(broker, ApacheKafka)
    public = f"PLAINTEXT://{broker.bootstrap},SSL://{tls},SASL_PLAINTEXT://{sasl}"
    protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
    broker.properties |= {
        "listeners": f"{public},CONTROLLER://127.0.0.1:{broker.controller}",
        "advertised.listeners": public,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{one}:{one}" for one in protocols)]),
        "ssl.keystore.location": str(folder / "server.p12"),
        "ssl.keystore.password": certs.PASSWORD,
        "ssl.key.password": certs.PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


# ------------------------------------------------------------ TLS


def _over_tls(bench: Bench, broker: Broker, tls: str, file: Path) -> None:
    records, warm_up = (100_000, 50_000) if bench.quick else (1_000_000, 300_000)
    properties = [f"{key}={value}" for key, value in _trusting(file.parent).items()]
    create_topic(broker.bootstrap, "warm-up", 4)
    tools.produce(tls, "warm-up", warm_up, *properties)
    create_topic(broker.bootstrap, "secret", 4)
    used = [cpu_seconds(broker.pid)]
    written = tools.produce(tls, "secret", records, *properties)
    used.append(cpu_seconds(broker.pid))
    read = tools.consume(tls, "secret", records, "--command-config", str(file))
    used.append(cpu_seconds(broker.pid))
    for measure, rate, took in ((WRITTEN, written, used[1] - used[0]), (READ, read, used[2] - used[1])):
        bench.note(measure, broker.name, rate)
        bench.note(cost_of(measure), broker.name, took / records * 1e6)
    bench.say(f"{broker.name}: over TLS wrote {written:,.0f}/s, read {read:,.0f}/s")


# ------------------------------------------------------------ log-ins


class Scram:
    """One user's log-in, over and over: what the client says, and what it costs nothing to know beforehand."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.address = (host, int(port))
        self.shake = frame(HANDSHAKE, 1, string("SCRAM-SHA-256"))
        self._bare = f"n={USER},r=bench"
        self.first = _token(f"n,,{self._bare}")
        with Connection(bootstrap) as connection:
            connection.ask(self.shake)
            challenge = _answered(connection.ask(self.first))
            found = _fields(challenge)
            salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b64decode(found["s"]), int(found["i"]))
            key = hmac.digest(salted, b"Client Key", "sha256")
            self._key, self._stored = int.from_bytes(key, "big"), hashlib.sha256(key).digest()
            self.check(connection.ask(self.final(challenge)))

    def final(self, challenge: str) -> bytes:
        """Two hashes: a real client keeps the salted password too."""
        without = f"c=biws,r={_fields(challenge)['r']}"
        signature = hmac.digest(self._stored, f"{self._bare},{challenge},{without}".encode(), "sha256")
        proof = (self._key ^ int.from_bytes(signature, "big")).to_bytes(len(signature), "big")
        return _token(f"{without},p={b64encode(proof).decode()}")

    def check(self, answer: bytes) -> None:
        if not (said := _answered(answer)).startswith("v="):
            raise RuntimeError(f"a log-in ended with {said!r}")


class _Knocking:
    """One connection on its way in."""

    def __init__(self, scram: Scram) -> None:
        self._scram = scram
        self._answers = 0
        self._got = b""
        self.socket = socket.socket()  # not create_connection: looking up the name costs more than connecting
        self.socket.connect(scram.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.socket.send(scram.shake)

    def heard(self) -> bool:
        """Something came. Whether that was the end of the log-in."""
        said = self.socket.recv(65_536)
        if not said:
            raise RuntimeError("a log-in was hung up on")
        self._got += said
        if len(self._got) < 4 or len(self._got) < 4 + int.from_bytes(self._got[:4], "big"):
            return False
        answer, self._got = self._got[4:], b""
        self._answers += 1
        if self._answers == 1:
            self.socket.send(self._scram.first)
        elif self._answers == 2:
            self.socket.send(self._scram.final(_answered(answer)))
        else:
            self._scram.check(answer)
        return self._answers == 3


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(","))


def _token(text: str) -> bytes:
    data = text.encode()
    return frame(AUTHENTICATE, 1, len(data).to_bytes(4, "big") + data)


def _answered(answer: bytes) -> str:
    """What SaslAuthenticate v1 brings: error, message, token, lifetime."""
    error, message = int.from_bytes(answer[4:6], "big"), int.from_bytes(answer[6:8], "big", signed=True)
    if error:
        raise RuntimeError(f"a log-in was refused with error {error}")
    at = 8 + max(0, message)
    return answer[at + 4 : at + 4 + int.from_bytes(answer[at : at + 4], "big")].decode()


def _log_ins(bench: Bench, broker: Broker, sasl: str) -> None:
    seconds = 1.0 if bench.quick else 10.0
    anyio.run(_add_user, broker.bootstrap)
    scram = _ready(sasl)
    _spin(scram, seconds)
    before = cpu_seconds(broker.pid)
    count, passed = _spin(scram, seconds)
    took = cpu_seconds(broker.pid) - before
    bench.note(LOGINS, broker.name, count / passed)
    bench.note(cost_of(LOGINS), broker.name, took / count * 1e6)
    bench.say(f"{broker.name}: {count / passed:,.0f} log-ins/s, {took / count * 1e6:,.0f} µs of the broker each")


async def _add_user(bootstrap: str) -> None:
    async with await Client.connect(bootstrap) as client:
        await set_password(client, USER, "SCRAM-SHA-256", PASSWORD, iterations=4096)


def _ready(sasl: str) -> Scram:
    """Kafka needs a moment until a new user can log in."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return Scram(sasl)
        except (RuntimeError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _spin(scram: Scram, seconds: float) -> tuple[int, float]:
    """Log-ins that were complete, several at a time, and how long they took.

    One loop over ready sockets: a thread for each would spend more on taking turns than on asking, and what the client
    costs is the same for every broker."""
    selector = selectors.DefaultSelector()
    done = inside = 0
    begin = time.monotonic()
    over = begin + seconds
    while inside or time.monotonic() < over:
        while inside < AT_A_TIME and time.monotonic() < over:
            client = _Knocking(scram)
            selector.register(client.socket, selectors.EVENT_READ, client)
            inside += 1
        for key, _ in selector.select():
            client = key.data
            if client.heard():
                selector.unregister(client.socket)
                client.socket.close()
                done += 1
                inside -= 1
    return done, time.monotonic() - begin


# ------------------------------------------------------------ ACLs


def _acls(bench: Bench) -> None:
    """Two of ours side by side, one with rules."""
    open_, ruled = BrokerLite(bench.folder / "open"), BrokerLite(bench.folder / "ruled")
    # The rules are made while everybody is a super user; from the second start on they hold.
    ruled.arguments = ("--set", f"authorizer.class.name={AUTHORIZER}", "--set", "super.users=User:ANONYMOUS")
    ruled.start()
    anyio.run(_add_rules, ruled.bootstrap)
    create_topic(ruled.bootstrap, "ruled", 4)
    create_topic(ruled.bootstrap, "small", 1)
    ruled.stop()
    ruled.arguments = ruled.arguments[:2]
    open_.start()
    ruled.start()
    try:
        create_topic(open_.bootstrap, "ruled", 4)
        create_topic(open_.bootstrap, "small", 1)
        batches = [produce_frame("ruled", b"x" * 150, partition=number, records=100) for number in range(4)]
        slow = _side_by_side(bench, open_, ruled, batches, "ruled")
        small = _side_by_side(bench, open_, ruled, [produce_frame("small", b"x" * 200)] * 16, "small")
    finally:
        open_.stop()
        ruled.stop()
    for measure, figure in ((ACLS, slow.lost), (ACLS_COST, slow.added), (ACLS_SMALL, small.added)):
        bench.note(measure, OURS, figure * 100)
    bench.say(
        f"ACLs cost {slow.lost:.1%} of the throughput and {slow.added:.1%} of the processor, {small.added:.1%} of it"
        " for small requests"
    )


class _Compared(NamedTuple):
    lost: float
    """Of the throughput."""
    added: float
    """Of processor time for a request."""


def _side_by_side(
    bench: Bench, open_: BrokerLite, ruled: BrokerLite, requests: Sequence[bytes], topic: str
) -> _Compared:
    """Many short turns, of which two neighbours are compared at a time, and then the middle of all comparisons: what
    else runs on the machine, and how fast its cores are just now, is the same for both."""
    error_in = partial(produce_error, topic)
    with Hammer(open_.bootstrap, requests, error_in) as without, Hammer(ruled.bootstrap, requests, error_in) as with_:
        pair = [(without, open_.pid, Turns()), (with_, ruled.pid, Turns())]
        for many, *_ in pair:
            many.hit(1.0)
        for turn in range(20 if bench.quick else 200):
            for many, pid, turns in pair if turn % 2 else reversed(pair):
                turns.add(many, pid)
    before, after = pair[0][2], pair[1][2]
    lost = 1 - statistics.median(ruled / free for ruled, free in zip(after.rates, before.rates))
    return _Compared(lost, after.cost / before.cost - 1)


class Turns:
    """What one broker did in its turns."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self._asked = 0
        self._used = 0.0

    def add(self, many: Hammer, pid: int) -> None:
        used, begin = cpu_seconds(pid), time.monotonic()
        asked = len(many.hit(TURN))
        self.rates.append(asked / (time.monotonic() - begin))
        self._used += cpu_seconds(pid) - used
        self._asked += asked

    @property
    def cost(self) -> float:
        """Seconds of processor for a request."""
        return self._used / self._asked


async def _add_rules(bootstrap: str) -> None:
    """Many that do not matter, and those that let the bench write."""
    from broker_lite.security.acls import Operation, Pattern, Permission, Resource
    from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse

    def rule(resource: Resource, name: str, who: str, operation: Operation) -> AclCreation:
        return AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=Pattern.LITERAL,
            principal=who,
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )

    rules = [rule(Resource.TOPIC, f"topic-{number}", f"User:u{number}", Operation.READ) for number in range(RULES - 4)]
    for name in ("ruled", "small"):
        rules.append(rule(Resource.TOPIC, name, "User:ANONYMOUS", Operation.WRITE))
        rules.append(rule(Resource.TOPIC, name, "User:ANONYMOUS", Operation.CREATE))
    async with await Client.connect(bootstrap) as client:
        answer = await client.request(CreateAclsRequest(creations=rules), CreateAclsResponse)
        if any(one.error_code for one in answer.results):
            raise RuntimeError(f"the rules were not taken: {answer.results}")
