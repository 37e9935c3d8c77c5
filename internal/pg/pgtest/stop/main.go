// Command stop ends the shared test cluster of this user and removes its folder.
package main

import (
	"fmt"
	"os"

	"briefrail/internal/pg/pgtest"
)

func main() {
	was, err := pgtest.Stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if was {
		fmt.Println("shared test cluster stopped")
	}
}
