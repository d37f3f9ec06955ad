"""300 texts with sensitive data and 300 that resemble it.

Keys, numbers and people are invented or from ranges reserved for examples. Forms are paired with carriers in
turn: prose, log lines, JSON and lookalike characters.
"""

from __future__ import annotations

import itertools
from typing import Final

from judge.text.redaction import Kind

_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

FORMS: Final[dict[Kind, tuple[str, ...]]] = {
    "emails": (
        "ada@example.com", "john.smith+news@mail.example.co.uk", "o'neil@example.ie", "x_y-z@sub.example.org",
        "j\u00fcrgen@m\u00fcller.example", "ADA@EXAMPLE.COM",

        "user.name@example.travel", "12345@example.net", "a@b.io",
        "first.last@iana.example",
        '"ada.b"@example.com',
        "very.long.local.part.of.somebody@department.example.edu",
        "ada@xn--mller-kva.example",
    ),
    "phones": (
        "+44 20 7946 0958", "020 7946 0958", "1-800-555-0199", "(555) 123-4567", "555-123-4567",
        "+1 (212) 555-0147",
        "555.123.4567", "+49 30 901820", "030/901820-15", "0171-1234567", "01 99 00 12 34", "01.99.00.12.34",
        "+33 1 99 00 12 34",
        "0049 30 9018 2000", "1 (800) 555-0199", "+919876543210", "+86 138 0013 8000", "tel. ~5550199",
        "call me at ~212 555 0147",
        "Fax: ~0207 946 0958", "mobile ~07700900123", "+353 1 496 0123", "+61 2 5550 1234", "(030) 2300 1234",
        "phone number: ~2125550147",
        "07700 900 123", "+1-202-555-0173", "+44 (0)20 7946 0958", "tel:~+442079460958", "0800 123 4567",
        "800 555 0199", "1.800.555.0199", "020-7946-0958", "whatsapp ~+55 11 95555-0123",
    ),
    "cards": (
        "4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "5555 5555 5555 4444",
        "3782 822463 10005",
        "378282246310005", "6011 0009 9013 9424", "3530111333300000", "2223 0031 2200 3222",
        "5105105105105100", "4111.1111.1111.1111",
        "6304000000000000", "4222222222222", "6200000000000005", "4012  8888  8888  1881",
    ),
    "ibans": (
        "GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "DE89 3704 0044 0532 0130 00",
        "FR14 2004 1010 0505 0001 3M02 606",
        "NL91ABNA0417164300", "NO93 8601 1117 947", "CH93-0076-2011-6238-5295-7",
        "es91 2100 0418 4502 0005 1332", "BE68 5390 0754 7034",
        "IT60X0542811101000000123456", "PL61 1090 1014 0000 0712 1981 2874", "SA0380000000608010167519",
    ),
    "ip": (
        "192.168.0.1", "10.0.0.255", "203.0.113.77", "2001:db8::1", "fe80::1ff:fe23:4567:890a",
        "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "::ffff:192.0.2.128", "::1", "198.51.100.23~:8080", "[2001:db8::2]",
    ),
    "secrets": (
        "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_11ABCDEFG0abcdefghij_klmnopqrstuvwxyz0123456789",
        "glpat-abcdEFGH1234ijklMNOP", "xoxb-123456789012-abcdefGHIJKL", "sk-proj-abcdefghijklmnopqrstuvwx",
        "sk_live_abcdefghijklmnop12345678",
        "AIzaSyA-1234567890abcdefghijklmnopqrstu", "hf_abcdefghijklmnopqrstuvwxyz012345",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        _JWT, "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG",
        "hvs.CAESIabcdefghijklmnopqrstuv",
        "password: ~correcthorse", "password=~hunter22", "pwd := ~Tr0ub4dor",
        "passphrase: '~staple7battery~'", "api_key=~abcdef123456",
        "api key: ~9f8e7d6c5b4a", "token: ~a1b2c3d4e5f6a7b8", "access-token = '~q1w2e3r4t5y6~'",
        "client_secret: ~Zx9Cv8Bn7Mm6", "Authorization: Basic ~dXNlcjpwYXNzd29yZA==",
        "Authorization: Bearer ~mF_9.B5f-4.1JqM", "authorization: Token ~0a1b2c3d4e5f",
        "Bearer ~7f3c9a1e5b2d8f4a6c0e", "redis://:~s3cr3tpw~@cache:6379/0",
        "postgres://app:~hunter2pw~@db/prod", "https://bob:~secretword~@example.com/x",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF3\n-----END PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
        "AWS_SECRET_ACCESS_KEY=~wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", '"password": "~p4ssw0rd!~"',
        "my password is ~S3cretPass", "DB_PASSWORD=~letmein99",
        "Passwort: ~geheim123",
        "AccountKey=~Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==",
        "x-api-key: ~0f1e2d3c4b5a", "curl -u ~ada:s3cretpw",
        "dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ),
}  # fmt: skip
"""Data by kind, as people and programs write it. Between `~` and `~`, or to the end, stands what must go;
without, all of it."""

_CARRIERS: Final = (
    "{0}",
    "Please note it down, it is {0}, and thank you.",
    '{{"note": "{0}", "page": 7}}',
    "2026-11-21T10:00:00Z INFO user said: {0}\n",
    "Die Angabe lautet {0} und gilt ab sofort.",
    "| Ada | {0} | yes |",
    "\u30c6\u30ad\u30b9\u30c8 {0} \u3067\u3059\u3002",
)


def _hidden(text: str) -> str:
    """With a zero-width character in the middle."""
    middle = len(text) // 2
    return f"{text[:middle]}\u200b{text[middle:]}"


def _wide(text: str) -> str:
    """In full-width forms, as Japanese input methods write them."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _unbroken(text: str) -> str:
    """With no-break spaces and another hyphen."""
    return text.replace(" ", "\u00a0").replace("-", "\u2011")


_DISGUISES: Final = (str, str, _hidden, _unbroken, str, _wide)


def _positives() -> list[tuple[Kind, str, str]]:
    forms = [(kind, form) for kind, forms in FORMS.items() for form in forms]
    found: list[tuple[Kind, str, str]] = []
    for place, ((kind, form), carrier) in enumerate(
        zip(itertools.cycle(forms), itertools.cycle(_CARRIERS), strict=False)
    ):
        if len(found) == 300:
            return found
        disguise = _DISGUISES[place // len(forms) * 2 + place % 2] if place < 3 * len(forms) else str
        # A key block is not varied: its standard allows plain lines only.
        parts = [part if "-----" in form else disguise(part) for part in form.split("~")]
        # "198.51.100.23~:8080": the data ends before the port.
        data = parts[0] if len(parts) == 1 or form.endswith("~:8080") else parts[1]
        text = carrier.format("".join(parts))
        found.append((kind, data, text))
    return found


POSITIVES: Final = _positives()
"""Kind, the data as it is written, and the text that holds it."""

NEGATIVE_FORMS: Final = (
    "me@here is no address", "nor is @home", "react@18.2.0", "the ratio a@b", "@ada thanks",
    "50 @ $2.00 each", "meet at noon (at) home", "look at example pages",
    "git@", "1889", "in 1889 for 1,500,000 francs", "2024-03-15", "15.03.2024", "03/15/2024", "01 02 2024",
    "1939-1945", "10:30:45", "2026-11-21T10:00:00Z",
    "ISBN 978-3-16-148410-0", "ISBN 0-306-40615-2", "330 m", "8,848.86 m", "3.14159265358979",
    "299 792 458 m/s", "6.02214076e23", "1 000 000 000", "12 345 678", "100-200 km",
    "pages 120-134", "[Page 7]", "[Pages 2-4]", "Evidence: [Page 12]", "7946 0958", "order 1234567890",
    "case no. 20-1234", "invoice 2024-000123", "room 0815", "flight LH 0400",
    "chapter 1.2.3.4", "version 1.2.3.4", "section 4.3.2.1", "1.2.3.4.5", "999.1.1.1", "300.400.500.600",
    "v10.0.19045.3803", "std::vector", "a::b", "Foo::bar()", "12:34", "00:00:00", "::", "deed::cafe",
    "4111-1111-1111-1112", "4111 1111 1111 1112", "1234567890123456", "0000 0000 0000 0000", "9876543210123",
    "GB82 WEST 1234 5698 7654 33", "GB82 is a code", "DE89 was a flight", "XX00 1234 5678 9012 3456",
    "The secret of a good bread is time.", "The password is required.", "password: required",
    "password must be changed", "Forgot your password?", "token: string", "a token is a unit of text",
    "The token limit is 4096.",
    "max_tokens: 256", "tokens=1024", "bearer bonds were sold", "Bearer of good news", "the bearer shall be",
    "basic authorization is explained", "Authorization was given.", "Authorization: required",
    "api_key: ${API_KEY}",
    "password = {password}", "password: null", "secret: false", "secret santa", "Secret Service agents",
    "the key is to listen", "access key features: speed", "private key cryptography", "public key",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----", "eyJ is how web tokens begin", "sk-learn", "sk_SK locale", "pk-1 pump",
    "ghp_short", "AKIA is a prefix", "hf_space", "npm_config", "https://example.com/a:b@c", "http://example.com:8080/path",
    "https://example.com/@ada", "ftp://example.com", "redis://cache:6379/0", "mailto:", "the year 0044",
    "route 01-23", "0.5-0.7", "0 to 100", "007", "0800", "08:00-17:00", "scores 3-2 and 1-0",
    "2-1-1 formation", "911", "112",
    "latitude 48.8584, longitude 2.2945", "48\u00b051'29.9\"N", "10.1038/nature12373", "arXiv:1706.03762",
    "RFC 3339", "ISO 8601", "Boeing 747-400", "Airbus A320-200", "Windows 10.0.19045", "Python 3.13.0",
    "CVE-2024-12345", "PMID 12345678",
    "DOI 10.1000/182", "chromosome 7q31.2", "pH 7.35-7.45", "120/80 mmHg", "5'-ATGCATGC-3'", "E = mc2",
    "x1 + x2 = 10", "f(x) = 2x + 1", "0b1010", "0xdeadbeef", "#ff8800", "rgb(255, 136, 0)", "sha1 da39a3ee",
    "2^31-1", "1/2 cup", "3-4 eggs",
    "$1,234.56", "EUR 1.234,56", "1,234,567,890", "12%", "24/7", "9/11", "4x4", "1080p", "H2O", "Route 66",
    "Catch-22", "U-571", "G20 summit", "5G network", "B-52", "section 230", "Apollo 11", "Area 51",
    "Form 1040-EZ", "401(k)", "90210",
    "SW1A 1AA", "call 3 times", "phone 2 of 3", "cell 12 of the sheet", "ring 1 of the pitch",
    "dial 5 for help", "text me when there", "mobile first", "fax machines of 1980", "hotline miami 2",
    "telephone in 1876", "reach 10 million users",
    "reached 1,000,000 readers", "sms of 160 characters",
)  # fmt: skip


def _negatives() -> list[str]:
    pairs = zip(itertools.cycle(NEGATIVE_FORMS), itertools.cycle(_CARRIERS), strict=False)
    return [carrier.format(form) for form, carrier in itertools.islice(pairs, 300)]


NEGATIVES: Final = _negatives()
"""Texts without such data."""
