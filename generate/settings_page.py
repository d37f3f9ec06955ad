"""Generate the reference of settings from the models: types, defaults, meanings, examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from generate.places import DOCS
from generate.tables import kind_of, resolve, table
from streams.settings.load import settings_schema
from streams.settings.problems import Renamed, former_settings
from streams.settings.tree import Settings

EXAMPLES: Final[Mapping[str, str]] = {
    "kafka": """\
kafka:
  bootstrap_servers: "kafka-0:9092,kafka-1:9092"
  group_id: judgestream
  security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: judgestream, password_env: KAFKA_PASSWORD}
""",  # noqa: E501
    "topics": """\
topics:
  events: support.answers
  create: true
  create_replication_factor: 3
""",
    "dead_letters": """\
dead_letters:
  max_ratio: 0.5
""",
    "ingest": """\
ingest:
  mapping:
    event_id: id
    question: request.prompt
    answer: response.text
    labels.tenant: meta.customer
""",
    "sampling": """\
sampling:
  default_rate: 0.05
  rules:
    - {name: gold, when: {tenant: gold}, rate: 1.0}
""",
    "metrics": """\
metrics:
  coverage: {when: {has: [reference]}}
  relevance: {when: {has: [context]}, rate: 0.5}
  tone: {prompt_pack: packs/tone.md, score_range: [1, 5]}
  ticket: {code: {regex: {pattern: "TICKET-[0-9]+"}}}
  politeness: {python: {function: "acme.metrics:politeness", result: [polite, curt, rude]}}
""",
    "judge": """\
judge:
  endpoints:
    - {name: primary, base_url: "https://llm.example.com/v1", model: gpt-4.1-mini, api_key_env: JUDGE_API_KEY}
  max_in_flight: 64
  timeout_seconds: 30
  budget: {usd_per_day: 25, when_spent: defer}
""",
    "monitor": """\
monitor:
  labels: [app, model]
  targets: {relevance: 4.0}
  objectives: {coverage: {at_least: 3, share: 0.99}}
""",
    "review": """\
review:
  basic_auth: {username: reviewers, password_env: REVIEW_PASSWORD}
""",
    "store": """\
store:
  path: /var/lib/judgestream/verdicts.sqlite3
  texts: excerpt
  keep_days: 14
""",
    "sinks": """\
sinks:
  collector: {kind: otlp_topic}
  langfuse: {kind: langfuse, url: "https://cloud.langfuse.com", public_key: pk-lf-1, secret_env: LANGFUSE_SECRET_KEY}
  hook: {kind: webhook, url: "https://example.com/verdicts", secret_env: HOOK_SECRET}
""",  # noqa: E501
    "telemetry": """\
telemetry:
  host: 0.0.0.0
  port: 8080
  labels: [app, model]
""",
}
"""Examples by section; a test loads each as settings."""

_INTRODUCTION: Final = """\
# Settings

<!-- Made by `python -m generate --write` from streams/settings; changes here are lost. -->

One YAML file holds all settings. `judgestream config check FILE` checks it, `config show FILE` prints the
effective settings, and `config schema` prints the JSON Schema for an editor.

- A variable `JUDGESTREAM_<SECTION>__<FIELD>` overrides the file: `JUDGESTREAM_SAMPLING__DEFAULT_RATE=0.1`.
- An unknown name is an error that suggests the right one.
- Secrets come from environment variables or files that the settings name, and are never printed.
- Relative paths start at the folder of the settings file.
"""

_OLD_NAMES: Final = """\
## Old names

A renamed setting works under its old name for one minor version, with a
[warning](upgrading.md#when-something-is-to-go); after that it is refused with its name.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One field of the page."""

    path: str
    kind: str
    default: str
    """As JSON, or "required"."""
    description: str


def page() -> str:
    """Return the page."""
    schema = settings_schema()
    parts = [_INTRODUCTION]
    for section, field in schema["properties"].items():
        parts.append(f"## {section}\n")
        described = resolve(schema, field).get("description", "")
        if described:
            parts.append(f"{described}\n")
        if section in EXAMPLES:
            parts.append(f"```yaml\n{EXAMPLES[section]}```\n")
        rows = list(rows_of(schema, section, field))
        parts.append(
            table(
                ("setting", "value", "default", "meaning"),
                [(f"`{row.path}`", row.kind, f"`{row.default}`", row.description) for row in rows],
            )
        )
    return "\n".join([*parts, _old_names()])


def _old_names() -> str:
    rows = [
        (f"`{row.old}`", f"`{row.new}`", row.since, row.ends)
        for row in former_settings().values()
        if isinstance(row, Renamed)
    ]
    columns = ("old name", "name", "since version", "refused from version")
    return f"{_OLD_NAMES}\n{table(columns, rows) if rows else 'No setting is renamed.'}".rstrip() + "\n"


def files() -> Mapping[Path, str]:
    """Return the page by its path."""
    return {DOCS / "settings.md": page()}


def example(section: str) -> Any:
    """Return the example of a section as settings, with defaults for other sections."""
    return Settings.model_validate(yaml.safe_load(EXAMPLES[section]))


def rows_of(schema: dict[str, Any], path: str, field: dict[str, Any]) -> Iterator[Row]:
    """Yield the fields of a section and its subsections, by dotted path."""
    node = resolve(schema, field)
    inner = _section_of(schema, node)
    if inner is None:
        return
    suffix, model = inner
    for name, child in model.get("properties", {}).items():
        if name.endswith("_file") and f"{name[:-4]}env" in model["properties"]:
            continue  # the other source of a secret, named in the row before
        if child.get("deprecated"):
            continue  # an old name, below
        here = f"{path}{suffix}.{name}"
        resolved = resolve(schema, child)
        nested = _section_of(schema, resolved)
        if nested is not None and nested[0] == "":
            yield from rows_of(schema, here, child)
            continue
        is_required = name in model.get("required", ())
        default = "required" if is_required else json.dumps(child.get("default"), ensure_ascii=False)
        description = child.get("description") or resolved.get("description", "")
        other = f"{name.removesuffix('env')}file"
        if name.endswith("_env") and other in model["properties"]:
            here, description = f"{here}` or `{other}", description.split(": name of")[0] + "."
        yield Row(here, kind_of(schema, resolved), default, description)
        if nested is not None:
            yield from rows_of(schema, here, child)


def _section_of(schema: dict[str, Any], node: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the model in a node: itself, a list item, a mapping's value, or an alternative."""
    node = resolve(schema, node)
    if "properties" in node:
        return "", node
    if isinstance(node.get("items"), dict):
        found = _section_of(schema, node["items"])
        return None if found is None else (f"[]{found[0]}", found[1])
    # A mapping with a pattern for names has its values under that pattern.
    for values in (node.get("additionalProperties"), *node.get("patternProperties", {}).values()):
        if isinstance(values, dict):
            found = _section_of(schema, values)
            return None if found is None else (f".<name>{found[0]}", found[1])
    for one in node.get("anyOf", ()):
        found = _section_of(schema, one)
        if found is not None:
            return found
    return None
