"""Every api of headrace, tried with nothing, with one right less than needed, and with just enough; made from
the table of required operations."""

import pytest
from authorization_kit import cases_of, faults_of
from headrace.protocol.messages import registry
from headrace.protocol.messages.envelope import Api
from headrace.protocol.security.required_operations import REQUIRED, Scope
from headrace.runtime.authorization.checks import CHECKS, checks_of

every_api = pytest.mark.parametrize("api", registry.ALL_APIS, ids=[api.name for api in registry.ALL_APIS])


@every_api
def test_checks_require_the_rights_of_the_table(api: Api) -> None:
    """No handler gets a resource that the client may not use, no response names one that the client may not
    see, and with all rights nothing is different."""
    faults = [fault for case in cases_of(api) for fault in faults_of(case, CHECKS[api.key])]
    assert faults == []


@every_api
def test_a_requirement_that_is_not_checked_is_found(api: Api) -> None:
    """The test above notices each requirement of the table that the code drops."""
    required = REQUIRED[api.key]
    for need in required.needs if api is not registry.DESCRIBE_DELEGATION_TOKEN else ():
        if need.scope is Scope.CREATED:
            continue  # the coordinator checks it
        rest = tuple(each for each in required.needs if each is not need)
        check = checks_of({api.key: required._replace(needs=rest)})[api.key]
        assert any(faults_of(case, check) for case in cases_of(api)), need
