# Barnabas in an image; docs/docker.md describes how to run it.
#
# Two stages: the first installs the packages that requirements-security.lock pins by hash, and the
# wheel of this tree, into one environment; the second is the base, that environment, a user and
# scripts. The extra `security` is among the packages: an image cannot be added to where it runs.
# BASE is any image with Python 3.11 or later, bash and glibc; the default has the newest Python for
# which everything in requirements-security.lock has wheels.
ARG BASE=python:3.14-slim

FROM ${BASE} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements-security.lock requirements-dev.lock ./
# setuptools builds the wheel and is not in the image; it comes from the lock, too.
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.lock > builder.lock \
 && python3 -m venv /build/builder \
 && /build/builder/bin/pip install --quiet --require-hashes -r builder.lock \
 && python3 -m venv --without-pip /usr/local/lib/barnabas \
 && /build/builder/bin/pip --python /usr/local/lib/barnabas/bin/python3 install --quiet \
        --require-hashes -r requirements-security.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY barnabas barnabas
COPY broker broker
COPY protocol protocol
COPY storage storage
COPY config config
COPY client client
RUN /build/builder/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir wheels . \
 && /build/builder/bin/pip --python /usr/local/lib/barnabas/bin/python3 install --quiet \
        --no-deps --no-index wheels/*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="Barnabas" \
      org.opencontainers.image.description="A single-node log broker that speaks Kafka's protocol" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /usr/local/lib/barnabas /usr/local/lib/barnabas
# The scripts are where the images of Apache Kafka and Confluent have theirs. Test containers
# modify some of them before they run them, so they belong to the user.
COPY docker/run /etc/kafka/docker/run
COPY docker/confluent /etc/confluent/docker
COPY docker/bin /usr/local/bin
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/barnabas \
        --shell /usr/sbin/nologin barnabas \
 && mkdir -p /var/lib/barnabas/data /var/lib/kafka/data \
 && chmod 0755 /etc/kafka/docker/run /etc/confluent/docker/* \
        /usr/local/bin/kafka-storage /usr/local/bin/zookeeper-server-start \
 && ln -s /etc/kafka/docker/run /etc/confluent/docker/run \
 && ln -s /etc/kafka/docker/run /etc/confluent/docker/launch \
 && ln -s /usr/local/lib/barnabas/bin/barnabas /usr/local/bin/barnabas \
 && chmod 0750 /var/lib/barnabas/data /var/lib/kafka/data \
 && chown -R 10001:10001 /var/lib/barnabas /var/lib/kafka /etc/confluent/docker
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
# log.dirs is `data` unless it is set, and a relative directory starts here.
WORKDIR /var/lib/barnabas
VOLUME ["/var/lib/barnabas/data"]
# Kafka's protocol, the msgpack dialect, and HTTP for probes and metrics.
EXPOSE 9092 9094 9095
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 CMD ["barnabas", "health"]
# No ENTRYPOINT: test containers and `docker run IMAGE barnabas …` bring commands of their own.
CMD ["/etc/kafka/docker/run"]
