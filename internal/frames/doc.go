// Package frames owns ops.matter_frames, the built Briefs: immutable rows, one a
// landed generation.
//
// It decides what a storable frame is (Check: one JSON object that jsonb keeps
// exactly) and names it by the SHA-256 of its RFC 8785 canonical form. It does not
// decide whether a frame may enter: the landing does, in the transaction of the
// token check, and the table refuses anything else. It does not promise that a
// frame is right about the matter; that is the builder's.
package frames
