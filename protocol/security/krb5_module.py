"""The options of `com.sun.security.auth.module.Krb5LoginModule` that a server uses. Pure.

Source: JDK Krb5LoginModule.java; Kafka KerberosLogin.java, SaslServerAuthenticator.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .jaas import JaasError, single_module
from .kerberos_names import parse_kerberos_name
from .principal_mapping import NoRuleError

if TYPE_CHECKING:
    from .jaas import JaasModule

MODULE = "Krb5LoginModule"
SERVICE_NAME_KEY = "sasl.kerberos.service.name"


class ServiceLogin(NamedTuple):
    """The Kerberos service of a server: its principal, and the file with its keys."""

    principal: str
    keytab: str


def service_login(text: str, service_name: str) -> ServiceLogin:
    """From `sasl.jaas.config` and `sasl.kerberos.service.name`. Errors: JaasError."""
    module = single_module(text, MODULE)
    options = module.options
    if options.get("useKeyTab", "").lower() != "true":
        raise JaasError(f"{MODULE} needs useKeyTab=true: a server's keys are in a keytab")
    for name in ("keyTab", "principal"):
        if not options.get(name):
            raise JaasError(f"{MODULE} needs the option {name}")
    made = ServiceLogin(options["principal"], options["keyTab"])
    service = _service_name(module, service_name)
    try:
        first = parse_kerberos_name(made.principal).first.partition("/")[0]
    except NoRuleError as error:
        raise JaasError(f"the principal of {MODULE}: {error}") from None
    if first != service:
        raise JaasError(
            f"the principal {made.principal[:200]} is not one of the service {service[:200]}"
            f" ({SERVICE_NAME_KEY}): its clients would ask for tickets of another one"
        )
    return made


def _service_name(module: JaasModule, configured: str) -> str:
    own = module.options.get("serviceName", "")
    if own and configured and own != configured:
        raise JaasError(f"{MODULE} has serviceName {own[:200]}, and {SERVICE_NAME_KEY} is {configured[:200]}")
    if not (own or configured):
        raise JaasError(f"GSSAPI needs {SERVICE_NAME_KEY}, or the option serviceName of {MODULE}")
    return own or configured
