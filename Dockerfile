# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build

# faust-streaming has no wheel for every platform; where there is none it is compiled here, and stays here.
# The compiler's version is the base image's to choose: nothing of it reaches the final image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
RUN python3 -m venv /opt/judgestream
COPY requirements/runtime.txt requirements/runtime.txt
RUN /opt/judgestream/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY judge judge
COPY streams streams
RUN /opt/judgestream/bin/pip install --no-cache-dir --no-deps . \
    && /opt/judgestream/bin/pip uninstall --yes pip \
    && /opt/judgestream/bin/python -m compileall -q /opt/judgestream/lib

FROM python:3.13-slim

LABEL org.opencontainers.image.title="judgestream" \
      org.opencontainers.image.description="Live quality of LLM answers on Kafka" \
      org.opencontainers.image.licenses="Apache-2.0"

RUN useradd --uid 65532 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin judgestream
COPY --from=build /opt/judgestream /opt/judgestream

ENV PATH=/opt/judgestream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["judgestream"]
CMD ["worker", "--config", "/etc/judgestream/config.yaml"]
