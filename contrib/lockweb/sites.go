package lockweb

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// sites names, for each client, the server and the database that has its locks. The caller has the turn to look.
func (p *Page) sites(ctx context.Context) []string {
	sites := serversOf(p.clients)
	of := map[string][]int{} // the clients of each server
	for i, server := range sites {
		of[server] = append(of[server], i)
	}
	var unknown []*lockrt.Client
	for _, some := range of {
		for _, i := range some {
			if c := p.clients[i]; len(some) > 1 && p.databases[c] == "" {
				unknown = append(unknown, c)
			}
		}
	}
	p.learn(ctx, unknown)
	for server, some := range of {
		if names, all := p.databasesOf(some); all {
			for n, i := range some {
				sites[i] = server + "/" + names[n]
			}
		}
	}
	return sites
}

// databasesOf returns the databases of some clients, and whether all of them are known.
func (p *Page) databasesOf(clients []int) (names []string, all bool) {
	for _, i := range clients {
		name := p.databases[p.clients[i]]
		if name == "" || name == untold {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// learn asks the servers for the databases of clients, all at once. A server that does not answer is asked again by the next look.
func (p *Page) learn(ctx context.Context, clients []*lockrt.Client) {
	ctx, cancel := context.WithTimeout(ctx, asking/6)
	defer cancel()
	names := make([]string, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { names[i] = databaseOf(ctx, c.Redis()) })
	}
	all.Wait()
	for i, c := range clients {
		if names[i] != "" {
			if p.databases == nil {
				p.databases = map[*lockrt.Client]string{}
			}
			p.databases[c] = names[i]
		}
	}
}

// untold is the database of a client whose server never tells it: the user may not ask, or the server is older than 6.2.
const untold = "untold"

// databaseOf returns the number of the database that rc has selected, untold, or "" if the server does not answer. A cluster has one.
func databaseOf(ctx context.Context, rc rueidis.Client) string {
	if rc.Mode() == rueidis.ClientModeCluster {
		return "0"
	}
	info, err := rc.Do(ctx, rc.B().ClientInfo().Build()).ToString()
	switch {
	case errors.Is(err, rueidis.ErrClosing): // it has no locks any more
		return "closed"
	case neverTells(err):
		return untold
	case err != nil:
		return ""
	}
	for field := range strings.FieldsSeq(info) {
		if number, ok := strings.CutPrefix(field, "db="); ok {
			return number
		}
	}
	return ""
}

// neverTells reports whether a server answered that the user may not call a command, or that it does not know the command.
func neverTells(err error) bool {
	said, refused := rueidis.IsRedisErr(err)
	return refused && (strings.HasPrefix(said.Error(), "NOPERM") || strings.HasPrefix(strings.ToLower(said.Error()), "err unknown "))
}

// serversOf names the server of each client. Clients have the same one if they know the address of one node.
func serversOf(clients []*lockrt.Client) []string {
	servers := make([]string, len(clients))
	of := map[string]string{} // by address
	for i, c := range clients {
		servers[i] = strconv.Itoa(i)
		if c.Redis() == nil {
			continue
		}
		nodes := c.Redis().Nodes()
		for addr := range nodes {
			if server, ok := of[addr]; ok {
				servers[i] = server
				break
			}
		}
		for addr := range nodes {
			of[addr] = servers[i]
		}
	}
	return servers
}
