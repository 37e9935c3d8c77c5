// Package config turns flags, environment, file and defaults into one validated,
// frozen struct of settings.
//
// It owns the table of settings (table.go). Everything else is derived from that
// table: the defaults, the names of environment variables and flags, the
// reference document, the output of "config show", and the search for variables
// and keys that nobody knows. Only this package knows viper, and viper never
// leaves Load: values reach it already parsed by the kind of their setting, so
// that its own conversions (a bare 15 read as 15 nanoseconds) never run.
//
// Precedence is flag, environment, file, default. An empty variable counts as
// not set. Load reports every mistake at once and returns no Config when there
// is one; what the caller does then (exit code 2) is the caller's decision.
//
// Secrets are read from files when they are needed, never kept, never printed,
// and are not accepted as flags. Nothing is reloaded while a process runs: mixed
// leases across replicas would be the price.
//
// It does not promise that a database, build service or queue answers: it checks
// what is written, not what is there, except that secret files can be read.
package config
