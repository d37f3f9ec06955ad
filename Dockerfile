# syntax=docker/dockerfile:1
# Build arguments: BASE, REQUIREMENTS (runtime or runtime-msk), VERSION and REVISION; see docs/deploy.md.
# By digest, so that the same sources give the same image; docs/deploy.md says how to take a newer one.
ARG BASE=python:3.13-slim@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285

FROM ${BASE} AS build

# faust-streaming has no wheel for every platform; where there is none it is compiled here, and stays here.
# The compiler's version is the base image's to choose: nothing of it reaches the final image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY requirements/image.txt requirements/
RUN python3 -m venv /opt/tools \
    && /opt/tools/bin/pip install --no-cache-dir --require-hashes -r requirements/image.txt

# Packages named here are compiled even where a wheel exists: PIP_NO_BINARY=faust-streaming tries on amd64 what arm64 does.
ARG PIP_NO_BINARY=""
ARG REQUIREMENTS=runtime
COPY requirements/${REQUIREMENTS}.txt requirements/
RUN /opt/tools/bin/pip wheel --no-cache-dir --no-build-isolation --no-deps --require-hashes \
      --wheel-dir /wheels -r requirements/${REQUIREMENTS}.txt

COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY judge judge
COPY streams streams
RUN /opt/tools/bin/pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels .

# No pip in the environment; no debugging symbols, which are a quarter of its size; byte code, because the root is
# read-only at run time. faust-streaming installs without its compiled parts when compiling fails; no worker starts then.
RUN python3 -m venv --without-pip /opt/judgestream \
    && /opt/tools/bin/pip --python /opt/judgestream install --no-cache-dir --no-compile --no-index --no-deps /wheels/*.whl \
    && find /opt/judgestream -name '*.so' -exec strip --strip-unneeded {} + \
    && rm /opt/judgestream/bin/*ctivate* \
    && /opt/judgestream/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/judgestream/lib \
    && /opt/judgestream/bin/python -c "import faust.streams; raise SystemExit(faust.streams._CStreamIterator is None)"

FROM ${BASE}

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="judgestream" \
      org.opencontainers.image.description="Live quality of LLM answers on Kafka" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

RUN useradd --uid 65532 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin judgestream
COPY --from=build /opt/judgestream /opt/judgestream

ENV PATH=/opt/judgestream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s \
  CMD ["judgestream", "health", "--config", "/etc/judgestream/config.yaml"]
ENTRYPOINT ["judgestream"]
CMD ["worker", "--config", "/etc/judgestream/config.yaml"]
