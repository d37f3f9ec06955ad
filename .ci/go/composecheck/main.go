// composecheck loads compose files with the reference parser, all profiles on, and says what is wrong with them.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	log.SetFlags(0)
	options, err := cli.NewProjectOptions(
		os.Args[1:],
		cli.WithOsEnv,
		cli.WithDotEnv,
		cli.WithConsistency(true),
		cli.WithProfiles([]string{"*"}),
	)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := options.LoadProject(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ok")
}
