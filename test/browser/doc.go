// Package browser walks the page of "railctl model explore" in a headless Chromium,
// as a person would: by clicking, by keyboard, on a narrow screen. It is a module of
// its own, owns nothing and is imported by nobody.
//
// The program under test is built from this checkout and serves on a free port of
// loopback. Where no browser is found the test skips and says so; RAIL_TEST_BROWSER
// names one that is not in PATH.
package browser
