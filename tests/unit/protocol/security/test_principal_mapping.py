"""`ssl.principal.mapping.rules`: cases of Kafka's SslPrincipalMapperTest, and rules that are not valid."""

import pytest
from headrace.protocol.security.principal_mapping import (
    NoRuleError,
    PrincipalMapper,
    PrincipalMappingError,
)

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,"
    " RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,ou=JavaSoft,o=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_first_rule_that_matches_decides(subject: str, name: str) -> None:
    assert PrincipalMapper(KAFKAS).name_of(subject) == name


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", "CN=a/b"),
        ("DEFAULT", "CN=a/b"),
        (r"RULE:CN=(.*)\/(.*)/$2\/$1$9\$/", "b/a$9$"),
        ("RULE:CN=(.*)(x)?/$1$2/U", "A/B"),
    ],
)
def test_replacements(rules: str, name: str) -> None:
    assert PrincipalMapper(rules).name_of("CN=a/b") == name


def test_no_rule_applies() -> None:
    with pytest.raises(NoRuleError, match="CN=b"):
        PrincipalMapper("RULE:CN=a/a/").name_of("CN=b")


@pytest.mark.parametrize(
    "rules", ["RULE:a", "RULE:a/b/X", "RULE:(/b/", "other", "DEFAULT DEFAULT", "RULE:a/b/L;DEFAULT"]
)
def test_invalid_rules(rules: str) -> None:
    with pytest.raises(PrincipalMappingError):
        PrincipalMapper(rules)
