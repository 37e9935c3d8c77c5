package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkIsToldAfterASecondAndLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		a := &app{stderr: &errs, watched: true}
		w := a.working("checking")
		w.say("2 of 9")
		time.Sleep(900 * time.Millisecond)
		w.end()
		if errs.Len() > 0 {
			t.Errorf("told too early: %q", errs.String())
		}
		w = a.working("checking")
		w.say("2 of 9")
		time.Sleep(1500 * time.Millisecond)
		a.working("next").end()
		w.end()
		if want := "\r\x1b[Kchecking: 1s 2 of 9\r\x1b[K"; errs.String() != want {
			t.Errorf("told %q, want %q", errs.String(), want)
		}
	})
}

func TestNothingIsToldIntoAPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		a := &app{stderr: &errs}
		w := a.working("checking")
		time.Sleep(5 * time.Second)
		w.end()
		if errs.Len() > 0 {
			t.Errorf("told %q", errs.String())
		}
	})
}
