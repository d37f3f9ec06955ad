"""Validity dates of certificates, and TLS contexts that follow their files."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from streams.errors import SettingsError
from streams.settings.certificates import RotatingContext, validity_of


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC)),
        # From 2050 a year has four digits (RFC 5280, section 4.1.2.5).
        (datetime(2051, 1, 1, tzinfo=UTC), datetime(2060, 6, 7, tzinfo=UTC)),
    ],
)
def test_both_dates_are_read(tmp_path: Path, begins: datetime, ends: datetime) -> None:
    file = tmp_path / "cert.pem"
    made = trustme.CA().issue_cert("a.test", not_before=begins, not_after=ends)
    file.write_bytes(b"leading text\n" + made.cert_chain_pems[0].bytes())
    assert validity_of(file).begins == begins
    assert validity_of(file).ends == ends


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cert.pem"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"has no (PEM|readable) certificate"):
        validity_of(file)


def _wrap(context: ssl.SSLContext) -> ssl.SSLContext:
    return context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a.test").context


def test_new_connections_have_the_new_files(tmp_path: Path) -> None:
    """A changed file applies to the next connection; an invalid file leaves the old context in force."""
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)

    def build() -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=str(file))
        except (OSError, ValueError) as error:
            raise SettingsError([str(error)]) from error

    context = RotatingContext(build, [file])
    first = _wrap(context)
    assert _wrap(context) is first
    file.write_text("half a certificate")
    assert _wrap(context) is first
    trustme.CA().cert_pem.write_to_path(file)
    second = _wrap(context)
    assert second is not first
    file.unlink()
    assert _wrap(context) is second


def test_a_changed_link_applies(tmp_path: Path) -> None:
    """A changed symbolic link of the folder applies too, as mounted secrets change that way."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        trustme.CA().cert_pem.write_to_path(tmp_path / name / "ca.pem")
    link = tmp_path / "current"
    link.symlink_to("one")
    file = link / "ca.pem"
    context = RotatingContext(lambda: ssl.create_default_context(cafile=str(file)), [file])
    first = _wrap(context)
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    assert _wrap(context) is not first
