from __future__ import annotations

import json

import jsonschema
import yaml

import streams.settings
from streams.settings import Settings, load_settings, mask, settings_schema


def test_secrets_are_masked() -> None:
    settings = load_settings(
        None,
        {
            "JUDGESTREAM_KAFKA__SECURITY": "{protocol: SASL_SSL, mechanism: PLAIN, username: u}",
            "JUDGESTREAM_KAFKA__SECURITY__PASSWORD": "pass-word",
            "JUDGESTREAM_JUDGE__ENDPOINTS": '[{"name": "a", "model": "m", "api_key": "sk-1"}]',
        },
    )
    shown = json.dumps(mask(settings))
    assert "pass-word" not in shown
    assert "sk-1" not in shown
    assert mask(settings)["kafka"]["security"]["password"] == "**********"


def test_what_is_shown_can_be_loaded_again() -> None:
    """The output without secrets is itself a valid settings file."""
    assert Settings.model_validate(yaml.safe_load(yaml.safe_dump(mask(Settings())))) == Settings()


def test_the_schema_accepts_what_loads_and_refuses_what_does_not() -> None:
    schema = settings_schema()
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    checker.validate(mask(Settings()))
    checker.validate(
        {"sampling": {"rules": [{"name": "a", "when": {"x": 1, "y": ["a", True]}, "rate": 0.5}]}}
    )
    for wrong in ("sampling: {defualt_rate: 1}", "judge: {max_in_flight: 0}", "x: {}"):
        assert not checker.is_valid(yaml.safe_load(wrong))


def test_exports() -> None:
    for name in streams.settings.__all__:
        assert hasattr(streams.settings, name)
