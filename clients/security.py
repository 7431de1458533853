"""`headrace.security`: arguments and results of `Admin` for ACLs, users, tokens, roles and namespaces."""

from ..protocol.security.acls import CLUSTER_NAME as CLUSTER_NAME
from ..protocol.security.acls import AclBinding as AclBinding
from ..protocol.security.acls import AclFilter as AclFilter
from ..protocol.security.acls import AclOperation as AclOperation
from ..protocol.security.acls import AclPermission as AclPermission
from ..protocol.security.acls import PatternType as PatternType
from ..protocol.security.acls import ResourceType as ResourceType
from ..protocol.security.scram import ScramMechanism as ScramMechanism
from ..protocol.security.tokens import DelegationToken as DelegationToken
from .admin.role_types import FeatureLevel as FeatureLevel
from .admin.role_types import NamespaceDescription as NamespaceDescription
from .admin.role_types import RoleDescription as RoleDescription
from .admin.security_types import IssuedToken as IssuedToken
from .admin.security_types import ScramCredentialInfo as ScramCredentialInfo
from .admin.security_types import ScramPassword as ScramPassword
