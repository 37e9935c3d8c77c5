// Package deploy holds the files that the rail is put into operation with, those of
// them embedded that a program also applies or prints.
//
// It owns deploy/roles.sql, the only list of what each database role may do; the
// database is what enforces it. It applies nothing by itself.
package deploy

import _ "embed"

// Roles is the SQL that makes the database roles and gives them their rights: one
// transaction with its own BEGIN and COMMIT, which may be run any number of times.
//
//go:embed roles.sql
var Roles string
