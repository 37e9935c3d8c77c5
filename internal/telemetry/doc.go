// Package telemetry is how a program of the rail is seen from outside: its log,
// its metrics registry, and the admin listener with metrics and probes.
//
// It owns the form of a log line, the registry that the other packages register
// with, the heartbeat of loops, and the rules of the probes: alive never depends
// on the database, ready does, started is said once by the program. Only programs
// import it; packages take an *slog.Logger, a prometheus.Registerer, or an
// interface of their own that Loops satisfies.
//
// It does not promise that a log line or a sample arrives anywhere, and no work
// waits for it.
package telemetry
