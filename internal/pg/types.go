package pg

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"briefrail/internal/rail"
)

// RegisterTypes teaches a session the rail's own words: rail.UUID as uuid in
// binary with the nil UUID as NULL, and the type that each word has where the
// statement does not say. Open and Connect do it already.
func RegisterTypes(c *pgx.Conn) {
	m := c.TypeMap()
	u := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	m.RegisterType(u)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: u}})
	m.RegisterDefaultPgType(rail.UUID{}, "uuid")
	m.RegisterDefaultPgType([]rail.UUID(nil), "_uuid")
	m.RegisterDefaultPgType(rail.Priority(0), "int2")
	m.RegisterDefaultPgType([]rail.Priority(nil), "_int2")
	m.RegisterDefaultPgType(rail.EventName(""), "text")
	m.RegisterDefaultPgType([]rail.EventName(nil), "_text")
}

// uuidCodec is pgx's codec with a direct way for rail.UUID. Without it pgx would
// go through the type's Valuer and Scanner, that is through text.
type uuidCodec struct{ pgtype.UUIDCodec }

// PlanEncode implements pgtype.Codec.
func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	switch value.(type) {
	case rail.UUID, *rail.UUID:
		return encodeUUID(format)
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// PlanScan implements pgtype.Codec.
func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*rail.UUID); ok {
		return scanUUID(format)
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

// encodeUUID is the wire format to write.
type encodeUUID int16

// Encode implements pgtype.EncodePlan.
func (f encodeUUID) Encode(value any, buf []byte) ([]byte, error) {
	var u rail.UUID
	switch v := value.(type) {
	case rail.UUID:
		u = v
	case *rail.UUID:
		if v != nil {
			u = *v
		}
	}
	if u.IsZero() {
		return nil, nil
	}
	if f == pgtype.TextFormatCode {
		return append(buf, u.String()...), nil
	}
	return append(buf, u[:]...), nil
}

// scanUUID is the wire format to read.
type scanUUID int16

// Scan implements pgtype.ScanPlan; NULL becomes the nil UUID.
func (f scanUUID) Scan(src []byte, target any) (err error) {
	u, ok := target.(*rail.UUID)
	switch {
	case !ok || u == nil:
		return fmt.Errorf("cannot scan a uuid into %T", target)
	case src == nil:
		*u = rail.UUID{}
	case f == pgtype.TextFormatCode:
		*u, err = rail.ParseUUID(string(src))
	case len(src) != len(u):
		err = fmt.Errorf("uuid of %d bytes", len(src))
	default:
		copy(u[:], src)
	}
	return err
}
