"""The settings: a frozen tree from one YAML file and the environment, validated as a whole at start."""

from __future__ import annotations

from streams.settings.credentials import (
    resolve_api_key,
    resolve_client_secret,
    resolve_key_password,
    resolve_password,
    resolve_secret,
)
from streams.settings.load import load_settings
from streams.settings.sections.intake import IngestSettings, SamplingRule, SamplingSettings
from streams.settings.sections.joining import ConversationSettings, OtlpSettings
from streams.settings.sections.judge import (
    BudgetSettings,
    CacheSettings,
    EndpointSettings,
    JudgeSettings,
    PriceSettings,
    default_endpoints,
)
from streams.settings.sections.kafka import (
    DeadLetterLimitSettings,
    DeadLetterSettings,
    KafkaSettings,
    RetentionSettings,
    TopicSettings,
)
from streams.settings.sections.metric import MetricConditions, MetricSettings
from streams.settings.sections.monitor import MonitorSettings
from streams.settings.sections.registry import RegistrySettings
from streams.settings.sections.review import ReviewSettings
from streams.settings.sections.security import OAuthSettings, SecuritySettings
from streams.settings.sections.sinks import SinkSettings
from streams.settings.sections.store import StoreSettings
from streams.settings.sections.telemetry import BasicAuthSettings, TelemetrySettings, TlsSettings
from streams.settings.show import mask, settings_schema
from streams.settings.tree import Settings

__all__ = [
    "BasicAuthSettings",
    "BudgetSettings",
    "CacheSettings",
    "ConversationSettings",
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
    "RetentionSettings",
    "ReviewSettings",
    "SamplingRule",
    "SamplingSettings",
    "SecuritySettings",
    "Settings",
    "SinkSettings",
    "StoreSettings",
    "TelemetrySettings",
    "TlsSettings",
    "TopicSettings",
    "default_endpoints",
    "load_settings",
    "mask",
    "resolve_api_key",
    "resolve_client_secret",
    "resolve_key_password",
    "resolve_password",
    "resolve_secret",
    "settings_schema",
]
