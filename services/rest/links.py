"""Addresses and names of the resources of version 3. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .shapes import ListMetadata, Metadata, Page, Related

if TYPE_CHECKING:
    from ..web.calls_io import Call

T = TypeVar("T")


class Links:
    """The links of one request."""

    def __init__(self, call: Call, cluster_id: str) -> None:
        self._call, self.cluster_id = call, cluster_id

    def url(self, *segments: object) -> str:
        """The address of a resource of the cluster."""
        return self._call.url("v3", "clusters", self.cluster_id, *segments)

    def related(self, *segments: object) -> Related:
        """A link to a resource of the cluster."""
        return Related(self.url(*segments))

    def metadata(self, *segments: object, name: str) -> Metadata:
        """The metadata of a resource; `name` is the part of its resource name after that of the cluster."""
        full = f"crn:///kafka={self.cluster_id}" + (f"/{name}" if name else "")
        return Metadata(self.url(*segments), full)

    def page(self, kind: str, data: list[T], *segments: object) -> Page[T]:
        """A list at this address."""
        return Page(kind, ListMetadata(self.url(*segments)), data)
