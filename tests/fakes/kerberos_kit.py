"""A real MIT KDC on a free port of loopback, its database in a folder of the test."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace.runtime.ports_io import reserve_ports

REALM = "HEADRACE.TEST"
# The KDC and the libraries in this process and in others take clocks for equal that differ by so much.
CLOCK_SKEW_S = 1
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"))
_TIMEOUT_S = 100
_KRB5_CONF = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  clockskew = {skew}
  default_ccache_name = FILE:{folder}/ccache
  default_client_keytab_name = FILE:{folder}/none.client.keytab
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_KDC_CONF = """\
[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/kadm5.acl
    max_life = 10h
    supported_enctypes = aes256-cts:normal
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
"""


def absent() -> str:
    """Why there can be no KDC here; empty if there can."""
    for name in _PROGRAMS:
        if shutil.which(name, path=_PATH) is None:
            return f"{name} is not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        return f"{error} (libkrb5-dev, and the extra kerberos)"
    return ""


def require() -> None:
    """Skip a test where there is no KDC, or fail it where HEADRACE_REQUIRE_KAFKA says that it has to run."""
    reason = absent()
    if reason and os.environ.get("HEADRACE_REQUIRE_KAFKA"):
        pytest.fail(f"a Kerberos KDC is required here: {reason}")
    if reason:
        pytest.skip(reason)


class Kdc:
    """A running KDC. `environment`: of programs that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (port,) = reserve_ports(1)
        facts = {"realm": REALM, "folder": folder, "port": port, "skew": CLOCK_SKEW_S}
        self.krb5_conf = folder / "krb5.conf"
        self.krb5_conf.write_text(_KRB5_CONF.format(**facts))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(**facts))
        self.environment = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5RCACHEDIR": str(folder)}

    def run(self, program: str, *arguments: str, commands: str = "") -> str:
        """The output of an administrator's program."""
        done = subprocess.run(
            [str(shutil.which(program, path=_PATH)), *arguments],
            input=commands,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        # kadmin.local ends with 0 after commands that failed
        assert done.returncode == 0, done.stderr
        assert not [line for line in done.stderr.splitlines() if " while " in line], done.stderr
        return done.stdout

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def add(self, *principals: str, max_life: str = "10h") -> None:
        """Create principals with random keys."""
        commands = "".join(f'addprinc -randkey -maxlife "{max_life}" {each}\n' for each in principals)
        self.run("kadmin.local", commands=commands)

    def keytab(self, name: str, *principals: str, new_keys: bool = False) -> str:
        """A keytab file with the keys of these principals, or with new ones."""
        path = self.folder / f"{name}.keytab"
        option = "" if new_keys else "-norandkey"
        self.run("kadmin.local", commands=f"ktadd -k {path} {option} {' '.join(principals)}\n")
        return str(path)

    def kinit(self, principal: str, keytab: str) -> str:
        """The credentials cache with a ticket of the principal, as a user has it, for KRB5CCNAME."""
        cache = f"FILE:{self.folder / principal.replace('/', '.')}.cache"
        self.run("kinit", "-c", cache, "-k", "-t", keytab, f"{principal}@{REALM}")
        return cache

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """The KDC runs meanwhile."""
        self.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        command = [str(shutil.which("krb5kdc", path=_PATH)), "-n", "-r", REALM]
        with (self.folder / "output").open("w") as output:
            process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.kill()
            process.wait(_TIMEOUT_S)


@contextlib.contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    """A KDC, which the Kerberos library of this process and of its children uses meanwhile."""
    made = Kdc(folder)
    with made.serving(), pytest.MonkeyPatch.context() as patched:
        for name, value in made.environment.items():
            patched.setenv(name, value)
        yield made
