"""A fact from Python, with psycopg 3:

    DATABASE_URL=postgres://... python3 fact.py FIRM MATTER lease.pdf
"""

import os
import sys

import psycopg


def upload(conn, firm, matter, name):
    """Store a document and the fact of it; return the fact's id."""
    # The block is one transaction: the fact commits with the document or not at all.
    with conn.transaction():
        conn.execute(
            "INSERT INTO app.documents (firm_id, matter_id, name) VALUES (%s, %s, %s)",
            (firm, matter, name),
        )
        row = conn.execute(
            "INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)"
            " VALUES (%s, %s, 'document.uploaded') RETURNING event_id",
            (firm, matter),
        ).fetchone()
    return row[0]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: fact.py FIRM MATTER NAME")
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        print(upload(connection, *sys.argv[1:]))
