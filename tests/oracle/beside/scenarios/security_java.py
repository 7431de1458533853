"""Kafka's own tools on secured listeners, by every mechanism; tools for rules, users and tokens."""

import re
from typing import Any

from ..asking import Asking
from ..java_io import Printed
from ..scene import Scene, scenario
from ..secured_io import (
    ADMIN,
    ALICE,
    BEARER_MODULE,
    BOB,
    OAUTHBEARER,
    OPEN,
    PASSWORD,
    PLAIN,
    PLAIN_MODULE,
    SCRAM_256,
    SCRAM_512,
    SCRAM_MODULE,
    SEALED,
)
from ..secured_users import WAYS, Login, Way, add_scram_users, prepare
from .java_tools import CONFIGS, CONSUMER, PRODUCER, TOOLS, TOPICS, lines, note_printed

CLIENT = "security"
ACLS, TOKENS = f"{TOOLS}.AclCommand", f"{TOOLS}.DelegationTokenCommand"
# tokens for clients on SEALED need system properties of the JVM, which the tools share
JAVA_WAYS = [way for way in WAYS if way != Way(SEALED, OAUTHBEARER)]
_ERROR = re.compile(r"(\w+(?:Exception|Error))\b(?!\.)")
_TOKEN = re.compile(r"^(\S{22})\s+(\S+)\s+(User:\S+)\s+(User:\S+)\s+(.*?)\s+(\d{4}-.*)$")


def properties(scene: Scene, login: Login) -> str:
    """The configuration of a Java client."""
    way, files = login.way, scene.system.files
    assert files is not None
    found = {"security.protocol": way.listener}
    if way.has_tls:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": files.path("ca.pem")}
    if not way.mechanism:
        store = f"{login.certificate}.store.pem"
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": files.path(store)}
    else:
        found |= {"sasl.mechanism": way.mechanism, "sasl.jaas.config": jaas(login)}
    found |= {"request.timeout.ms": "10000", "default.api.timeout.ms": "15000"}
    return "".join(f"{name}={value}\n" for name, value in found.items())


def jaas(login: Login, more: str = "") -> str:
    """The users of a mechanism that a client may be."""
    if login.way.mechanism == OAUTHBEARER:
        life = (
            ' unsecuredLoginNumberClaim_exp="1000" unsecuredLoginNumberClaim_iat="1"'
            if login.is_wrong
            else ""
        )
        return f'{BEARER_MODULE} required unsecuredLoginStringClaim_sub="{login.user}"{life};'
    module = PLAIN_MODULE if login.way.mechanism == PLAIN else SCRAM_MODULE
    return f'{module} required username="{login.user}" password="{login.password}"{more};'


class Shell:
    """Tools of one login."""

    def __init__(self, scene: Scene, login: Login, config: str) -> None:
        self.scene, self.login, self.config = scene, login, config

    def run(self, tool: str, *arguments: str, option: str = "--command-config", given: str = "") -> Printed:
        address = self.scene.system.address_of(self.login.way.listener)
        where = ("--bootstrap-server", address, option, self.config)
        return self.scene.tool(tool, *where, *arguments, given=given)


def errors(done: Printed) -> list[str]:
    """The names of the exceptions that a tool printed, without repetition."""
    return list(dict.fromkeys(_ERROR.findall(done.err + done.out)))


@scenario(CLIENT, "java console tools", is_secured=True)
def console(scene: Scene) -> None:
    prepare(scene)
    topic = ("--topic", scene.topic)
    for way in JAVA_WAYS:
        for label, login in {
            "right": Login(way),
            "wrong": Login(way, is_wrong=True),
            "without rights": Login(way, BOB),
        }.items():
            with scene.file(properties(scene, login)) as config:
                shell = Shell(scene, login, config)
                described = shell.run(TOPICS, "--describe", *topic)
                found: dict[str, Any] = {"described": [described.status, errors(described)]}
                if not login.is_wrong:
                    found |= _records(shell, topic)
                scene.note(f"{way.label}/{label}", found)


def _records(shell: Shell, topic: tuple[str, str]) -> dict[str, Any]:
    """Two lines sent, and two read by a member of the group."""
    props = ("--producer-property", "max.block.ms=10000", "--producer-property", "enable.idempotence=false")
    sent = shell.run(PRODUCER, *topic, "--sync", *props, option="--producer.config", given="x\ny\n")
    more = ("--group", topic[1], "--from-beginning", "--max-messages", "2", "--timeout-ms", "15000")
    read = shell.run(CONSUMER, *topic, *more, option="--consumer.config")
    return {
        "sent": [sent.status, errors(sent)],
        "read": [read.status, errors(read), lines(read.out)],
    }


def _script(scene: Scene, login: Login, config: str, calls: list[tuple[str, str, str]]) -> None:
    shell = Shell(scene, login, config)
    for label, tool, arguments in calls:
        done = shell.run(tool, *arguments.replace("{topic}", scene.topic).split())
        out, err = (text.replace(config, "<config>") for text in (done.out, done.err))
        note_printed(scene, label, Printed(done.status, "\n".join(sorted(out.splitlines())), err))


_ADD, _OF_TOPIC, _OF_GROUP = "--add --allow-principal User:carol", "--topic {topic}", "--group {topic}"
ACL_SCRIPT = [
    ("add", ACLS, f"{_ADD} --operation Read --operation Describe {_OF_TOPIC}"),
    ("add by prefix", ACLS, f"{_ADD} --producer {_OF_TOPIC} --resource-pattern-type prefixed"),
    ("add for a consumer", ACLS, f"{_ADD} --consumer {_OF_TOPIC} {_OF_GROUP}"),
    (
        "deny a host",
        ACLS,
        f"--add --deny-principal User:carol --deny-host 10.0.0.1 --operation Read {_OF_TOPIC}",
    ),
    ("idempotent", ACLS, f"{_ADD} --producer --idempotent --transactional-id {{topic}} {_OF_TOPIC}"),
    ("of tokens", ACLS, f"{_ADD} --operation CreateTokens --user-principal User:dave"),
    ("operation that topics do not have", ACLS, f"{_ADD} --operation ClusterAction {_OF_TOPIC}"),
    ("list", ACLS, f"--list {_OF_TOPIC}"),
    ("list matching", ACLS, f"--list {_OF_TOPIC} --resource-pattern-type match"),
    ("list of a principal", ACLS, "--list --principal User:carol"),
    ("remove one", ACLS, f"--remove --force --allow-principal User:carol --operation Describe {_OF_TOPIC}"),
    ("list again", ACLS, "--list --principal User:carol"),
    ("remove all", ACLS, f"--remove --force {_OF_TOPIC} --resource-pattern-type match"),
    ("list at last", ACLS, f"--list {_OF_TOPIC} --resource-pattern-type match"),
]


@scenario(CLIENT, "kafka-acls", is_secured=True)
def acls(scene: Scene) -> None:
    """By the super user, and by a user without rights."""
    for user in (ADMIN, BOB):
        login = Login(Way(OPEN, PLAIN), user)
        with scene.file(properties(scene, login)) as config:
            if user == ADMIN:
                _script(scene, login, config, ACL_SCRIPT)
            else:
                bobs = [(f"{label} by {user}", *rest) for label, *rest in (ACL_SCRIPT[0], ACL_SCRIPT[7])]
                _script(scene, login, config, bobs)  # type: ignore[arg-type]


_USER = "--entity-type users --entity-name {topic}"
SCRAM_SCRIPT = [
    ("described before", CONFIGS, f"--describe {_USER}"),
    ("added", CONFIGS, f"--alter {_USER} --add-config SCRAM-SHA-256=[iterations=8192,password=new]"),
    ("the other", CONFIGS, f"--alter {_USER} --add-config SCRAM-SHA-512=[password=new]"),
    ("twice", CONFIGS, f"--alter {_USER} --add-config SCRAM-SHA-256=[password=a],SCRAM-SHA-512=[password=a]"),
    ("described", CONFIGS, f"--describe {_USER}"),
    ("too few iterations", CONFIGS, f"--alter {_USER} --add-config SCRAM-SHA-256=[iterations=1,password=b]"),
    ("one deleted", CONFIGS, f"--alter {_USER} --delete-config SCRAM-SHA-512"),
    ("deleted again", CONFIGS, f"--alter {_USER} --delete-config SCRAM-SHA-512"),
    ("described at last", CONFIGS, f"--describe {_USER}"),
]  # fmt: skip


@scenario(CLIENT, "kafka-configs of SCRAM users", is_secured=True)
def scram(scene: Scene) -> None:
    """The new user is known by the password that the tool set, as long as it has it."""
    login = Login(Way(OPEN, PLAIN), ADMIN)
    with scene.file(properties(scene, login)) as config:
        _script(scene, login, config, SCRAM_SCRIPT)
    for mechanism in (SCRAM_256, SCRAM_512):
        for password in ("new", "old"):
            text = properties(scene, Login(Way(OPEN, mechanism), ALICE))
            text = text.replace(f'"{ALICE}"', f'"{scene.topic}"').replace(
                f'"{PASSWORD[ALICE]}"', f'"{password}"'
            )
            with scene.file(text) as config:
                done = Shell(scene, login, config).run(TOPICS, "--list")
                scene.note(f"{mechanism} {password}", [done.status, errors(done)])
    with scene.file(properties(scene, Login(Way(OPEN, PLAIN), BOB))) as config:
        done = Shell(scene, login, config).run(
            CONFIGS, *SCRAM_SCRIPT[1][2].replace("{topic}", scene.topic).split()
        )
        scene.note("by bob", [done.status, errors(done)])


@scenario(CLIENT, "kafka-delegation-tokens", is_secured=True)
def tokens(scene: Scene) -> None:
    """Made by alice over SCRAM, used by clients, renewed, and expired."""
    with Asking(scene) as asking:
        add_scram_users(asking, PASSWORD)
    login = Login(Way(SEALED, SCRAM_256))
    with scene.file(properties(scene, login)) as config:
        shell = Shell(scene, login, config)
        made = _tokens(
            shell, "created", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
        )
        (name, hmac), *_ = made
        _tokens(shell, "described", "--describe")
        _use(scene, "used", name, hmac)
        _use(scene, "used with a wrong HMAC", name, "d3Jvbmc=")
        _tokens(shell, "renewed", "--renew", "--hmac", hmac, "--renew-time-period", "3600000")
        _tokens(
            shell, "renewed with a wrong HMAC", "--renew", "--hmac", "d3Jvbmc=", "--renew-time-period", "-1"
        )
        for user in (BOB, ADMIN):
            other = Login(Way(OPEN, PLAIN), user)
            with scene.file(properties(scene, other)) as of_other:
                its = Shell(scene, other, of_other)
                _tokens(its, f"described by {user}", "--describe")
                more = ("--hmac", hmac, "--expiry-time-period", "60000")
                _tokens(its, f"expired by {user}", "--expire", *more)
                more = ("--owner-principal", "User:carol", "--max-life-time-period", "-1")
                _tokens(its, f"created by {user} for another", "--create", *more)
        _tokens(shell, "expired", "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
        _tokens(shell, "described at last", "--describe")
        _use(scene, "used when it has expired", name, hmac)


def _tokens(shell: Shell, label: str, *arguments: str) -> list[tuple[str, str]]:
    """Id and HMAC of each token that the tool shows; owner, requester and renewers are noted."""
    done = shell.run(TOKENS, *arguments)
    rows = [found for line in done.out.splitlines() if (found := _TOKEN.match(line))]
    shown = [[row[3], row[4], row[5]] for row in rows]
    texts = [line.split(":")[0] for line in lines(done.out) if not _TOKEN.match(line)]
    shell.scene.note(label, [done.status, errors(done), shown, texts])
    return [(row[1], row[2]) for row in rows]


def _use(scene: Scene, label: str, name: str, hmac: str) -> None:
    login = Login(Way(SEALED, SCRAM_512))
    text = properties(scene, login)
    mine = f'username="{name}" password="{hmac}" tokenauth="true"'
    text = text.replace(f'username="{ALICE}" password="{PASSWORD[ALICE]}"', mine)
    with scene.file(text) as config:
        shell = Shell(scene, login, config)
        done = shell.run(TOPICS, "--list")
        scene.note(label, [done.status, errors(done)])
        made = shell.run(TOKENS, "--create", "--max-life-time-period", "-1")
        scene.note(f"{label} to create another", [made.status, errors(made)])
