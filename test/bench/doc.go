// Command bench measures the rail on a throwaway PostgreSQL that syncs to disk:
// `make bench`, or BENCH=quick for a shorter look.
//
// Where the rail runs a statement, pgbench runs the very same text on the same
// server, taken from the code as it is sent: what is left between the two is what
// the rail itself costs. The two take turns, because machines are noisy, and a
// ratio is the median of the turns' ratios. Progress goes to stderr, the table to
// stdout; -write also puts it between the markers of a document.
//
// It owns the server and the databases it makes and nothing else. It judges
// nothing: a time is a figure here, never a failure.
package main
