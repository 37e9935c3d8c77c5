# PostgreSQL from Debian's package, used like the image "postgres" of Docker's library. Its files, the
# entrypoint among them, are in the base: here are settings only, so that no layer is made.
# The socket is in /tmp, as nothing in /run survives the making of the base.
FROM briefrail/debian-base:bookworm
ENV PGDATA=/var/lib/postgresql/data LANG=C.UTF-8 PGHOST=/tmp
USER postgres
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
EXPOSE 5432
ENTRYPOINT ["/usr/local/bin/entrypoint"]
CMD ["postgres"]
