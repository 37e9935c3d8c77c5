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
const InsertCTE = `, framed AS (
  INSERT INTO ops.matter_frames
    (firm_id, matter_id, generation, frame, digest, schema_version, builder_version, authority_epoch, run_id)
  SELECT l.firm_id, l.matter_id, l.generation, @frame::jsonb, @digest::bytea, @schema_version::text, @builder_version::text,
         l.authority_epoch, l.run_id
    FROM landed l
  RETURNING run_id
)`

// Row is a frame about to be written by CopyIn.
type Row struct {
	Key                           rail.Key
	Token                         rail.Token
	JSON                          []byte // checked by Check
	Digest                        [32]byte
	SchemaVersion, BuilderVersion string
	AuthorityEpoch                int64
}

// CopyIn inserts one frame of any size inside the landing's transaction without
// copying it: the driver sends parameters from buffers of its own, a COPY is read
// from ours in small pieces.
func CopyIn(ctx context.Context, tx pgx.Tx, r Row) error {
	const columns = `COPY ops.matter_frames
  (firm_id, matter_id, generation, digest, schema_version, builder_version, authority_epoch, run_id, frame) FROM STDIN (FORMAT binary)`
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, r.binary(), columns)
	// below pgx nobody tells the session's tracer, which counts errors
	if t, ok := tx.Conn().Config().Tracer.(pgx.CopyFromTracer); ok {
		t.TraceCopyFromEnd(ctx, tx.Conn(), pgx.TraceCopyFromEndData{CommandTag: tag, Err: err})
	}
	if err != nil {
		return fmt.Errorf("frames.CopyIn(%s, %s): %w", r.Key, r.Token, err)
	}
	return nil
}

// binary is the row in PostgreSQL's binary COPY format (documentation of COPY,
// "Binary Format"): signature, flags, one tuple, trailer. jsonb is sent as its
// version byte 1 and the text.
func (r Row) binary() io.Reader {
	head := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	head = binary.BigEndian.AppendUint16(head, 9)
	for _, field := range [][]byte{
		r.Key.Firm[:], r.Key.Matter[:], binary.BigEndian.AppendUint64(nil, uint64(r.Token.Generation)), r.Digest[:],
		[]byte(r.SchemaVersion), []byte(r.BuilderVersion), binary.BigEndian.AppendUint64(nil, uint64(r.AuthorityEpoch)), r.Token.Run[:],
	} {
		head = append(binary.BigEndian.AppendUint32(head, uint32(len(field))), field...)
	}
	head = append(binary.BigEndian.AppendUint32(head, uint32(len(r.JSON)+1)), 1)
	return io.MultiReader(bytes.NewReader(head), bytes.NewReader(r.JSON), strings.NewReader("\xff\xff"))
}
