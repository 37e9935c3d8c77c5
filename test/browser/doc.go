// Package browser walks the pages of "railctl model explore" and "railctl console" in a
// headless Chromium, as a person would: by clicking, by keyboard, on a narrow screen. It
// is a module of its own, owns nothing and is imported by nobody.
//
// The program under test is built from this checkout and serves on a free port of
// loopback; the console's ledger is a throwaway database, and the rail's own packages
// act on it as a worker would. Where no browser is found the test skips and says so;
// RAIL_TEST_BROWSER names one that is not in PATH.
package browser
