"""The table of MLflow."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

MLFLOW: Final = Family(
    name="mlflow",
    version="3",
    marks=("mlflow",),
    kinds={
        "mlflow.spanType": {
            "llm": "model",
            "chat_model": "model",
            "agent": "agent",
            "chain": "chain",
            "workflow": "workflow",
            "retriever": "retrieval",
            "reranker": "rerank",
            "tool": "tool",
            "embedding": "embedding",
            "evaluator": "evaluation",
            "guardrail": "evaluation",
        }
    },
    given=("mlflow.spanInputs",),
    gave=("mlflow.spanOutputs",),
    model=("mlflow.llm.model",),
    conversation=("mlflow.trace.session",),
    labels={"mlflow.llm.provider": "provider"},
)
