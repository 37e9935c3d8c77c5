# outbox-relay: sends facts from the outbox to a bus or a queue.
# Built by scripts/images, whose context holds two archives with fixed times: what every
# image has, and the static program. Nothing is pulled and nothing is run.
FROM scratch
ADD base.tar /
ADD outbox-relay.tar /
ENV ZONEINFO=/usr/share/zoneinfo.zip
USER 65532:65532
ENTRYPOINT ["/outbox-relay"]
CMD ["run"]
HEALTHCHECK --interval=10s --timeout=15s --start-period=60s --retries=3 CMD ["/outbox-relay", "healthcheck"]
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="briefrail relay" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
