"""A client authenticates by the ticket of a real KDC, which the machine must have (Debian: krb5-kdc)."""

import sys
import tempfile
from pathlib import Path

import headrace

sys.path.append(str(Path(__file__).parents[2] / "tests" / "fakes"))
from kerberos_kit import REALM, absent, kdc

assert not absent(), absent()
MODULE = "com.sun.security.auth.module.Krb5LoginModule"

with tempfile.TemporaryDirectory() as name, kdc(Path(name)) as realm:
    realm.add("alice", "kafka/127.0.0.1")
    keytab = realm.keytab("node", "kafka/127.0.0.1")
    jaas = f'{MODULE} required useKeyTab=true keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";'
    config = {
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.native.gssapi.sasl.jaas.config": jaas,
    }
    with headrace.local(security=headrace.Security(users={"bob": "bob-secret"}), **config) as cluster:
        cluster.admin().create_topics(headrace.NewTopic("t")).raise_for_errors()
        login = {
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.principal": f"alice@{REALM}",
            "sasl.kerberos.keytab": realm.keytab("alice", "alice"),
            "security.protocol": "SASL_SSL",
            "server.public.key": cluster.server_public_key,
        }
        with headrace.Producer(cluster.bootstrap, config=login) as producer:
            assert producer.send("t", b"by a ticket").result(timeout=60).offset == 0
