"""The check of a cluster's secret."""

import pytest
from headrace.protocol.errors import ClusterAuthorizationFailedError
from headrace.runtime.control_secret import check_secret, digest_of


def test_only_the_secret_of_the_cluster_passes() -> None:
    """The error names the call, what is wrong and where the secret is, and has neither secret nor digest."""
    digest = digest_of("right")
    check_secret("right", digest, "`stop` of node-1")
    for given, text in (("", "no secret of the cluster"), ("wr0ng", "another secret")):
        with pytest.raises(
            ClusterAuthorizationFailedError, match=f"`stop` of node-1: the caller has {text}"
        ) as caught:
            check_secret(given, digest, "`stop` of node-1")
        assert "clusters/NAME.secret" in str(caught.value)
        assert not any(each in str(caught.value) for each in ("wr0ng", "right", digest))


def test_calls_are_rejected_without_a_cluster_secret() -> None:
    """Its Ray lost the digest."""
    with pytest.raises(ClusterAuthorizationFailedError, match="`headrace up` makes one"):
        check_secret("", None, "`stop` of node-1")
