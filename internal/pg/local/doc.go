// Package local runs a throwaway PostgreSQL from the binaries of this machine, for
// the demonstration, the benchmarks and the tests.
//
// It owns one data directory and one postmaster. A Cluster is running or stopped:
// Start, Restart, Stop and Kill move it, and the postmaster's own exit stops it
// too. Backup, Restore, Standby and Promote rewind it and fail it over. It listens on 127.0.0.1 and on a socket in its directory, trusts every
// local user, and by default does not sync to disk. It is no place for data that
// anybody wants to keep, and it does not promise the same port after a new Start.
package local
