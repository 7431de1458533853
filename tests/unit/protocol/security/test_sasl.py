"""Names and texts of SASL that clients see."""

from headrace.protocol.security.sasl import MECHANISMS, invalid_credentials


def test_mechanisms_and_the_text_of_a_refusal_are_kafkas() -> None:
    assert MECHANISMS == ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    assert invalid_credentials("PLAIN") == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )
