package survey

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// hint is how many digits of the id of its process the id of a permit begins with.
const hint = 12

// Owners returns what some of the holders of l have in Redis: their owners, and of those that took several permits at once each id. A
// process names the first id alone; the others are those in Redis that begin like it. whole is false if those can be of another hold of
// the process, or may not be read; they are left out.
func Owners(ctx context.Context, rc rueidis.Client, l *Lock, of []Holder) (owners []string, whole bool, err error) {
	several := false
	want, have := map[string]int{}, map[string]int{} // permits, by how their ids begin
	for _, h := range of {
		owners = append(owners, h.Owner)
		several = several || h.Holds > 1
		want[begin(h.Owner)] += h.Holds
	}
	if l.Kind != string(lockrt.KindPermit) || !several {
		return owners, true, nil
	}
	for _, h := range l.Holders {
		have[begin(h.Owner)] += h.Holds
	}
	raw, err := rc.Do(ctx, rc.B().Zrange().Key(PermitLeases(l.Key)).Min("0").Max("-1").Build()).AsStrSlice()
	if _, refused := rueidis.IsRedisErr(err); refused { // it is not permitted
		return owners, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	ids := map[string][]string{}
	for _, id := range raw {
		id = hex.EncodeToString([]byte(id))
		ids[begin(id)] = append(ids[begin(id)], id)
	}
	whole, owners = true, nil
	added := map[string]bool{}
	for _, h := range of {
		switch b := begin(h.Owner); {
		case want[b] != have[b] || have[b] != len(ids[b]):
			owners, whole = append(owners, h.Owner), whole && h.Holds <= 1
		case !added[b]:
			owners, added[b] = append(owners, ids[b]...), true
		}
	}
	return owners, whole, nil
}

func begin(owner string) string { return owner[:min(hint, len(owner))] }

// PermitLeases returns the name in Redis of the permits of a semaphore that are taken.
func PermitLeases(key string) string {
	if strings.Contains(key, "{") {
		return key + ":timeout"
	}
	return "{" + key + "}:timeout"
}
