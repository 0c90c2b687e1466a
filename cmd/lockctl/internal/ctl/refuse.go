package ctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"

	"github.com/redis/rueidis"
)

// masterOf returns the address of the master of a replica that no client writes to, and whether a server, with the text of INFO, is one.
func masterOf(info map[string]string) (addr string, replica bool) {
	return net.JoinHostPort(info["master_host"], info["master_port"]), info["role"] == "slave" && info["slave_read_only"] == "1"
}

// ofCluster returns whether a server, with the text of INFO, is one of a cluster.
func ofCluster(info map[string]string) bool { return info["cluster_enabled"] == "1" }

// refusePart fails if the only server of the URL is a part of the deployment: a server of a cluster, which has the locks of its own slots alone, or a
// replica, where no process listens. Either would seem to have no locks. It does not fail if the server does not say what it is.
func (o *options) refusePart(ctx context.Context) error {
	if o.rc.Mode() != rueidis.ClientModeStandalone {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout/5)
	defer cancel()
	info := map[string]string{}
	for _, reply := range o.rc.DoMulti(ctx, o.rc.B().Info().Section("replication").Build(), o.rc.B().Info().Section("cluster").Build()) { // Redis 6 takes one section
		text, err := reply.ToString()
		if err != nil {
			continue // the next request has the error, or INFO is not permitted
		}
		maps.Copy(info, parseInfo(text))
	}
	if ofCluster(info) {
		return errors.New("the server is one server of a cluster, which has the locks of its own slots alone: say cluster=true in the URL")
	}
	if master, replica := masterOf(info); replica {
		return fmt.Errorf("the server is a replica, which does not know the processes: use the URL of its master, %s, or of sentinels", master)
	}
	return nil
}
