"""User names from Kerberos principals, compared with what Kafka's KerberosShortNamer gives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from headrace.benchmarks.servers.kafka_io import TOOL_JVM, compiled
from headrace.protocol.security.kerberos_names import PrincipalToLocal
from headrace.protocol.security.principal_mapping import NoRuleError, PrincipalMappingError
from kafka_oracle import classpath, require

REALM = "EXAMPLE.COM"
SERVICE = "RULE:[2:$1](HTTP)"
# rules, principal, user name or None without one
CASES: list[tuple[list[str], str, str | None]] = [
    (["DEFAULT"], "alice@EXAMPLE.COM", "alice"),
    (["DEFAULT"], "kafka/host@EXAMPLE.COM", "kafka"),
    (["DEFAULT"], "alice@OTHER.COM", None),
    (["RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "DEFAULT"], "bob@OTHER.COM", "bob"),
    (["RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "DEFAULT"], "bob@EXAMPLE.COM", "bob"),
    (["RULE:[1:$1@$0](OTHER.COM)s/@.*//"], "bob@OTHER.COM", None),  # the whole text has to match
    (["RULE:[2:$1.$2]"], "kafka/host@EXAMPLE.COM", "kafka.host"),
    (["RULE:[2:$1.$2]"], "kafka@EXAMPLE.COM", None),
    (["RULE:[1:$1]/L"], "Alice@EXAMPLE.COM", "alice"),
    (["RULE:[1:$1]/U"], "Alice@EXAMPLE.COM", "ALICE"),
    (["RULE:[1:$1]L"], "Alice@EXAMPLE.COM", "alice"),
    (["RULE:[1:$1]s/a/b/g/U"], "banana@EXAMPLE.COM", "BBNBNB"),
    (["RULE:[1:$1]s/a/b/"], "banana@EXAMPLE.COM", "bbnana"),
    (["RULE:[1:$1]s/(.)(.)/$2$1/g"], "abcde@EXAMPLE.COM", "badce"),
    (["RULE:[1:$1]s/x*/-/g"], "axxb@EXAMPLE.COM", "-a--b-"),
    (["RULE:[1:$1@$0]", "DEFAULT"], "alice@EXAMPLE.COM", None),  # a name with @ ends the search
    (["RULE:[1:app_$1](app_.*)s/^app_//", SERVICE], "x@EXAMPLE.COM", "x"),
    ([SERVICE, "RULE:[2:$2]"], "HTTP/web@EXAMPLE.COM", "HTTP"),
    ([SERVICE, "RULE:[2:$2]"], "nfs/disk@EXAMPLE.COM", "disk"),
    (["DEFAULT"], "a/b/c@EXAMPLE.COM", None),
    (["DEFAULT"], "a\\@b@EXAMPLE.COM", None),
    (["DEFAULT"], "no-realm", "no-realm"),
]
INVALID = ["", "default", "RULE:[1:$1", "RULE:[:$1]", "RULE:[1:$1](a)b", "RULE:[1:$1]s/a/b", "RULE:[1:$1](()"]
_JAVA = """\
import java.util.*;
import org.apache.kafka.common.security.kerberos.*;
public class ShortNames {
    public static void main(String[] lines) {
        for (String line : lines) {
            String[] parts = line.split("\\n", -1);
            try {
                List<String> rules = Arrays.asList(parts).subList(1, parts.length);
                System.out.println(KerberosShortNamer.fromUnparsedRules("EXAMPLE.COM", rules)
                    .shortName(KerberosName.parse(parts[0])));
            } catch (Exception e) {
                System.out.println("! " + e.getClass().getSimpleName());
            }
        }
    }
}
"""


@pytest.mark.parametrize(("rules", "principal", "name"), CASES)
def test_principals_are_mapped_by_rules(rules: list[str], principal: str, name: str | None) -> None:
    mapper = PrincipalToLocal(rules, REALM)
    if name is None:
        with pytest.raises(NoRuleError):
            mapper.name_of(principal)
    else:
        assert mapper.name_of(principal) == name


@pytest.mark.parametrize("rule", [*INVALID, "RULE:[1:$2]", "RULE:[2:$]"])
def test_rules_that_are_not_valid(rule: str) -> None:
    """The last two only fail in Kafka when they apply."""
    with pytest.raises(PrincipalMappingError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        PrincipalToLocal([rule])


def test_a_user_has_a_name() -> None:
    """Kafka accepts an empty one, which no rule of its authorizer can name."""
    with pytest.raises(NoRuleError, match="empty user name"):
        PrincipalToLocal(["RULE:[1:$1]s/.*//"], REALM).name_of(f"alice@{REALM}")


def test_error_of_no_rule_names_the_principal() -> None:
    with pytest.raises(NoRuleError, match=r"'alice@OTHER'.*the default realm is EXAMPLE.COM"):
        PrincipalToLocal(default_realm=REALM).name_of("alice@OTHER")
    with pytest.raises(NoRuleError, match="default realm is not set"):
        PrincipalToLocal().name_of("alice@OTHER")


def test_names_are_those_of_kafka(tmp_path: Path) -> None:
    """All cases and all invalid rules in one run of Kafka's classes."""
    require()
    (tmp_path / "ShortNames.java").write_text(_JAVA)
    jars = classpath()
    classes = compiled("short-names", [tmp_path / "ShortNames.java"], jars)
    asked = ["\n".join([principal, *rules]) for rules, principal, _ in CASES]
    asked += ["\n".join(["a@EXAMPLE.COM", rule]) for rule in INVALID]
    command = ["java", *TOOL_JVM, "-cp", f"{classes}:{jars}", "ShortNames", *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    made = [None if line.startswith("!") else line for line in done.stdout.splitlines()]
    assert made == [name for _, _, name in CASES] + [None] * len(INVALID), json.dumps(done.stdout)
