package demo

import "github.com/redis/rueidis"

// connect returns a client of the one server at url.
func connect(url string) (rueidis.Client, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.ForceSingleClient = true
	option.DisableCache = true // the embedded server does not track what clients cache
	return rueidis.NewClient(option)
}
