# Remora in a container: docker build -t remora . && docker run -v remora:/data -p 127.0.0.1:8611:8611 remora
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN pip wheel --no-cache-dir -c constraints.txt -w /wheels ".[postgres]"

FROM python:3.12-slim
# The wheels are the pinned ones of the first stage, and no index is asked.
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "remora[postgres]" \
 && useradd --system --uid 10001 --create-home --home-dir /data remora
# A number: a host that forbids root cannot look the name up.
USER 10001
# The mirror, remora.toml and the console's token are here.
VOLUME /data
WORKDIR /data
EXPOSE 8611
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8611/health', timeout=4)"]
# Outside of the container the console asks for the token in /data/remora.db.token.
ENTRYPOINT ["remora"]
CMD ["up", "--listen", "0.0.0.0:8611"]
