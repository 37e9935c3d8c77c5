# railctl: the tool of operators, and the job that migrates. It ends by itself and has no health.
# Built by scripts/images, whose context holds two archives with fixed times: what every
# image has, and the static program. Nothing is pulled and nothing is run.
FROM scratch
ADD base.tar /
ADD railctl.tar /
ENV ZONEINFO=/usr/share/zoneinfo.zip
USER 65532:65532
ENTRYPOINT ["/railctl"]
CMD ["--help"]
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="briefrail operator tool" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
