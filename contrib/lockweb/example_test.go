package lockweb_test

import (
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/lockgen/lockgen/contrib/lockweb"
	lockrt "github.com/lockgen/lockgen/runtime"
)

func ExampleHandler() {
	history := &lockweb.History{}
	client, err := lockrt.Open(context.Background(), "redis://localhost:6379", lockrt.Options{Hooks: history.Hooks(lockrt.Hooks{})})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	page := lockweb.Handler(client).With(lockweb.WithHistory(history))
	http.Handle("/debug/locks", page)
}

func ExampleWithForce() {
	client, err := lockrt.Open(context.Background(), "redis://localhost:6379", lockrt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	operators := func(r *http.Request) error {
		if _, password, ok := r.BasicAuth(); !ok || password != "of the vault" {
			return errors.New("operators alone may take locks by force")
		}
		return nil
	}
	http.Handle("/debug/locks", lockweb.Fleet(client).With(lockweb.WithForce(operators)))
}
