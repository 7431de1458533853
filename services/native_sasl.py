"""The SASL mechanisms of native clients: those of Kafka clients, with the same users and config keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.security.scram import SCRAM_MECHANISMS
from ..storage_node.configs.gateway_config import NATIVE_LISTENER
from ..storage_node.configs.listener_security import SecurityProtocol, listener_security
from ..storage_node.edge.accounts import Accounts
from .kafka_listener.sasl_offer import SaslSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.security.sasl import SaslFactory
    from ..storage_node.configs.node_config import NodeConfig

_SCRAM = f"{NATIVE_LISTENER.lower()}.sasl.enabled.mechanisms={','.join(SCRAM_MECHANISMS)}"


class NativeMechanisms:
    """Fulfils NativeSasl."""

    def __init__(self, config: NodeConfig, image: Callable[[], MetadataImage]) -> None:
        """SCRAM unless sasl.enabled.mechanisms says otherwise. Errors: ConfigError."""
        # An own key comes after this one, and the last one counts.
        own = config.listener_name if config.sasl_enabled_mechanisms else (_SCRAM, *config.listener_name)
        # CURVE takes the place of TLS, and has no key store.
        security = listener_security(NATIVE_LISTENER, SecurityProtocol.SASL_PLAINTEXT, config, own)
        self._setup = SaslSetup(security, Accounts(image, config.delegation_token_secret_key))

    @property
    def mechanisms(self) -> Mapping[str, SaslFactory]:
        """Part of NativeSasl."""
        return self._setup.offer.mechanisms

    @property
    def max_reauth_ms(self) -> Mapping[str, int]:
        """Part of NativeSasl."""
        return self._setup.offer.max_reauth_ms

    def close(self) -> None:
        """Part of NativeSasl."""
        self._setup.close()
