// Package explorer is a page on which the models are walked by hand: each step that
// may be taken is a button, each defence a switch, and the row is drawn as it
// changes.
//
// It owns no state. Where somebody stands is in the address alone (model, options,
// and the path as places among the steps offered), so a link shows the same to
// everybody; every step is taken by internal/model, and the browser knows nothing
// of the models. The page works without its script, which only spares a reload.
//
// A request costs a bounded amount of work: the path has an end, and checks have a
// limit of states, a limit of time, and a queue of one. It answers GET only, takes
// requests only by the names it was told (a foreign name that leads here is how a
// page elsewhere would read this one), and loads nothing from anywhere else.
//
// Handler uses relative addresses, so it may be mounted anywhere behind
// http.StripPrefix. Not promised: that it keeps anybody out. Who may ask is for the
// server around it to decide.
package explorer
