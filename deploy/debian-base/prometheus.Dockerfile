# Prometheus from Debian's package, used like the image prom/prometheus.
FROM briefrail/debian-base:bookworm
USER prometheus
VOLUME /prometheus
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
