package frames

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/rail"
)

// InsertCTE is the frame's part of a landing, "framed", fed by the landing's
// "landed". Named arguments: @frame (jsonb), @digest, @schema_version,
// @builder_version.
const InsertCTE = `, framed AS (` + insert + `@frame::jsonb` + described

// InsertArrivedCTE is InsertCTE for a frame that CopyIn has brought in: @arrival in
// place of @frame.
const InsertArrivedCTE = `, framed AS (` + insert + `(SELECT a.frame FROM ops.frame_arrivals a WHERE a.arrival_id = @arrival::uuid)` +
	described + `, cleared AS (
  DELETE FROM ops.frame_arrivals WHERE arrival_id = @arrival::uuid
)`

const insert = `
  INSERT INTO ops.matter_frames
    (firm_id, matter_id, generation, frame, digest, schema_version, builder_version, authority_epoch, run_id)
  SELECT l.firm_id, l.matter_id, l.generation, `

const described = `, @digest::bytea, @schema_version::text, @builder_version::text,
         l.authority_epoch, l.run_id
    FROM landed l
  RETURNING run_id
)`

// CopyIn brings one frame of any size into the landing's transaction without
// copying it: the driver sends parameters from buffers of its own, a COPY is read
// from ours in small pieces. It must come before anything is locked, as no timeout
// ends a COPY whose sender has stalled.
func CopyIn(ctx context.Context, tx pgx.Tx, arrival rail.UUID, json []byte) error {
	const columns = `COPY ops.frame_arrivals (arrival_id, frame) FROM STDIN (FORMAT binary)`
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, copied(arrival, json), columns)
	// below pgx nobody tells the session's tracer, which counts errors
	if t, ok := tx.Conn().Config().Tracer.(pgx.CopyFromTracer); ok {
		t.TraceCopyFromEnd(ctx, tx.Conn(), pgx.TraceCopyFromEndData{CommandTag: tag, Err: err})
	}
	if err != nil {
		return fmt.Errorf("frames.CopyIn(%d bytes): %w", len(json), err)
	}
	return nil
}

// copied is the row in PostgreSQL's binary COPY format (documentation of COPY,
// "Binary Format"): signature, flags, one tuple, trailer. jsonb is sent as its
// version byte 1 and the text.
func copied(arrival rail.UUID, json []byte) io.Reader {
	head := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	head = binary.BigEndian.AppendUint16(head, 2)
	head = append(binary.BigEndian.AppendUint32(head, uint32(len(arrival))), arrival[:]...)
	head = append(binary.BigEndian.AppendUint32(head, uint32(len(json)+1)), 1)
	return io.MultiReader(bytes.NewReader(head), bytes.NewReader(json), strings.NewReader("\xff\xff"))
}
