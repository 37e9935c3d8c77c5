// Package provision lays a way for nudges on anything that speaks like AWS: a bus, a
// rule, a queue and both its dead-letter queues. It serves the demo and tests; what
// is to stay belongs to the account's own tools.
//
// A way is made by Lay and owns all that Lay made until TakeDown has removed it. A
// process that is killed in between leaves it behind; its name is the caller's, so it
// can be found. Who decides what is in force when: the endpoint. A stand-in does what
// it was told at once; AWS may take a minute.
//
// Not promised: that what is there is fit for work (nudge.Preflight judges that), and
// anything about a way whose parts somebody else has changed.
package provision
