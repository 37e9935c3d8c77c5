// Package containers holds the tests of the rail in containers: the images as
// scripts/images builds them, and the stack of deploy/compose with a real PostgreSQL and a
// real Prometheus, stopped, paused, cut off and restarted from the outside.
//
// It needs a Docker engine and Compose, 1.29 or 2; where there is none the tests skip and
// say so. The host reaches containers by ports published on 127.0.0.1 only. A stack is a
// project with a name of its own, with passwords, rules and settings in a temporary folder,
// and is removed with its networks and volumes, whatever happened; images stay.
//
// On a machine that is slow today, scenes that would make a gate too long are left out and
// say so; RAIL_TEST_LOAD=full runs all of them, however long it takes.
package containers
