"""broker-lite certs: a throw-away CA and certificates made by it, so that trying TLS is one command.

    DIR/ca.pem                        whom to trust                        (truststore.p12 for Java)
    DIR/server.pem, server.p12        the broker's chain and key
    DIR/client.pem, client.p12        a client's chain and key, CN=client
    DIR/client-cert.pem, client-key.pem   the same in two files

Keys are readable by their owner alone. The CA's key is not kept, so nobody can make further certificates with it.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser
from broker_lite.errors import StartRefused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName

PASSWORD = "changeit"
"""Java's own habit; a PKCS#12 file without a password is nothing Java can read."""


def parser() -> Parser:
    made = Parser(prog="broker-lite certs", description="Make a throw-away CA, server and client certificates.")
    made.add_argument("dir", metavar="DIR", type=Path, help="where the files go; it is made if it does not exist")
    made.add_argument(
        "--host", metavar="NAME", action="append", help="a name or address of the server (localhost, 127.0.0.1, ::1)"
    )
    made.add_argument("--client", metavar="NAME", default="client", help="the common name of the client (client)")
    made.add_argument("--days", metavar="N", type=int, default=365, help="how long they are valid (365)")
    made.add_argument("--password", metavar="TEXT", default=PASSWORD, help=f"of the .p12 files ({PASSWORD})")
    return made


def run(args: argparse.Namespace) -> int:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise StartRefused("making certificates needs another package: pip install 'broker-lite[tls]'") from None
    hosts = args.host or ["localhost", "127.0.0.1", "::1"]
    make(args.dir, hosts, client=args.client, days=args.days, password=args.password)
    print(f"certificates are in {args.dir}, the password of the .p12 files is {args.password}")
    print(f"  broker-lite serve --tls {args.dir}")
    print(f"  clients: security.protocol=SSL, ssl.ca.location={args.dir / 'ca.pem'}")
    return 0


def make(folder: Path, hosts: list[str], *, client: str = "client", days: int = 365, password: str = PASSWORD) -> None:
    """All files, old ones replaced."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    folder.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("broker-lite throw-away CA", ca_key, None, ca_key, days, [])
    _write(folder / "ca.pem", ca.public_bytes(Encoding.PEM), secret=False)
    _write(folder / "truststore.p12", _truststore(ca, password), secret=False)
    for file, name, names in (("server", hosts[0], hosts), ("client", client, [])):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, ca, ca_key, days, names)
        chain = certificate.public_bytes(Encoding.PEM) + ca.public_bytes(Encoding.PEM)
        _write(folder / f"{file}.pem", _key_pem(key) + chain)
        _write(folder / f"{file}-key.pem", _key_pem(key))
        _write(folder / f"{file}-cert.pem", chain, secret=False)
        _write(folder / f"{file}.p12", _keystore(name, key, certificate, ca, password))


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: Certificate | None,
    issuer_key: EllipticCurvePrivateKey,
    days: int,
    hosts: list[str],
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if issuer is None:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _keystore(
    name: str, key: EllipticCurvePrivateKey, certificate: Certificate, ca: Certificate, password: str
) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [ca], encryption)


def _truststore(ca: Certificate, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(ca, b"ca")], encryption)


def _write(path: Path, data: bytes, *, secret: bool = True) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644), "wb") as file:
        file.write(data)
