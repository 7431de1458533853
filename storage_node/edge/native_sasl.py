"""The contract between a node and the SASL mechanisms of its native clients. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.metadata.image import MetadataImage
    from ...protocol.security.sasl import SaslFactory
    from ..configs.node_config import NodeConfig


class NativeSasl(Protocol):
    """The mechanisms of one node."""

    @property
    def mechanisms(self) -> Mapping[str, SaslFactory]:
        """New exchanges by mechanism."""

    @property
    def max_reauth_ms(self) -> Mapping[str, int]:
        """How long a connection may be used without another authentication, by mechanism; 0 for no limit."""

    def close(self) -> None:
        """Release what the mechanisms use."""


SaslProvider = Callable[["NodeConfig", "Callable[[], MetadataImage]"], NativeSasl]
