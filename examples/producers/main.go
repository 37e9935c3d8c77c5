// Command producers is an application, cut down to the one thing that it does for
// the rail: it stores a document and says so in the same transaction. It owns
// nothing of the rail and imports nothing of it; pgx is here because an application
// in Go has it anyway. It promises nothing about its own table.
//
//	go run ./examples/producers FIRM MATTER lease.pdf
//
// The database is named by DATABASE_URL.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: producers FIRM MATTER NAME")
		os.Exit(2)
	}
	event, err := run(context.Background(), os.Getenv("DATABASE_URL"), os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "producers:", err)
		os.Exit(1)
	}
	fmt.Println(event)
}

func run(ctx context.Context, url, firm, matter, name string) (event string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		event, err = upload(ctx, tx, firm, matter, name)
		return err
	})
	return event, err
}

// upload takes the transaction from its caller, so that whatever else the
// application does in it stands or falls with the fact. It returns the fact's id,
// which `railctl explain` takes.
func upload(ctx context.Context, tx pgx.Tx, firm, matter, name string) (event string, err error) {
	const document = `INSERT INTO app.documents (firm_id, matter_id, name) VALUES ($1, $2, $3)`
	if _, err := tx.Exec(ctx, document, firm, matter, name); err != nil {
		return "", fmt.Errorf("store %q: %w", name, err)
	}
	const fact = `
INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
VALUES ($1, $2, 'document.uploaded') RETURNING event_id::text`
	if err := tx.QueryRow(ctx, fact, firm, matter).Scan(&event); err != nil {
		return "", fmt.Errorf("append document.uploaded: %w", err)
	}
	return event, nil
}
