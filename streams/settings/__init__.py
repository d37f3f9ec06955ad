"""The settings: a frozen tree from one YAML file and the environment, validated as a whole at start."""

from __future__ import annotations

from streams.settings.base import Secret, read_secret
from streams.settings.broker import (
    DeadLetterLimitSettings,
    DeadLetterSettings,
    KafkaSettings,
    OAuthSettings,
    SecuritySettings,
    TopicSettings,
)
from streams.settings.intake import (
    IngestSettings,
    OtlpSettings,
    RegistrySettings,
    SamplingRule,
    SamplingSettings,
)
from streams.settings.judge import (
    BudgetSettings,
    CacheSettings,
    EndpointSettings,
    JudgeSettings,
    PriceSettings,
    default_endpoints,
)
from streams.settings.load import load_settings, mask, secrets_of, settings_schema
from streams.settings.metrics import MetricConditions, MetricSettings
from streams.settings.outputs import (
    BasicAuthSettings,
    MonitorSettings,
    ReviewSettings,
    SinkSettings,
    StoreSettings,
    TelemetrySettings,
    TlsSettings,
    WebSinkSettings,
)
from streams.settings.tree import Settings

__all__ = [
    "BasicAuthSettings",
    "BudgetSettings",
    "CacheSettings",
    "DeadLetterLimitSettings",
    "DeadLetterSettings",
    "EndpointSettings",
    "IngestSettings",
    "JudgeSettings",
    "KafkaSettings",
    "MetricConditions",
    "MetricSettings",
    "MonitorSettings",
    "OAuthSettings",
    "OtlpSettings",
    "PriceSettings",
    "RegistrySettings",
    "ReviewSettings",
    "SamplingRule",
    "SamplingSettings",
    "Secret",
    "SecuritySettings",
    "Settings",
    "SinkSettings",
    "StoreSettings",
    "TelemetrySettings",
    "TlsSettings",
    "TopicSettings",
    "WebSinkSettings",
    "default_endpoints",
    "load_settings",
    "mask",
    "read_secret",
    "secrets_of",
    "settings_schema",
]
