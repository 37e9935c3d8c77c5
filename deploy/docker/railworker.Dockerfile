# railworker: decides facts, has Briefs built, lands them under a fence.
# Built by scripts/images, whose context holds two archives with fixed times: what every
# image has, and the static program. Nothing is pulled and nothing is run.
FROM scratch
ADD base.tar /
ADD railworker.tar /
ENV ZONEINFO=/usr/share/zoneinfo.zip
USER 65532:65532
ENTRYPOINT ["/railworker"]
CMD ["run"]
HEALTHCHECK --interval=10s --timeout=15s --start-period=60s --retries=3 CMD ["/railworker", "healthcheck"]
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="briefrail worker" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
