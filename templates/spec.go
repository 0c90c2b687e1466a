package templates

import (
	"strconv"
	"strings"
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// spec writes the options of a lock. The type of a typed one says its kind.
func spec(l *model.Lock, typed bool) *jen.Statement {
	texts := make([]string, len(l.Keys))
	for i, k := range l.Keys {
		texts[i] = k.Text
	}
	fields := []jen.Code{field("Name", jen.Lit(l.SpecName)), field("Template", jen.Lit(strings.Join(texts, ", ")))}
	if !typed && !l.Mixed() && l.Keys[0].Kind != model.Mutex { // which is the zero value
		fields = append(fields, kind(l.Keys[0])...)
	}
	fields = append(fields, field("Wait", wait(l.Wait)))
	if l.Watchdog > 0 {
		fields = append(fields, field("Watchdog", duration(l.Watchdog)))
	}
	if l.Lease > 0 {
		fields = append(fields, field("Lease", duration(l.Lease)))
	}
	if l.Min > 0 {
		fields = append(fields, field("Min", duration(l.Min)))
	}
	if l.Linger > 0 {
		fields = append(fields, field("Linger", duration(l.Linger)))
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"Keep", l.Keep},
		{"Report", l.Report},
		{"Empty", allowsNone(l)},
		{"Fence", l.Keys[0].Fence && !l.Mixed()},
	} {
		if flag.set {
			fields = append(fields, field(flag.name, jen.True()))
		}
	}
	return gen("Spec").Values(fields...)
}

// kinds are the names of the runtime's kinds.
var kinds = map[model.Kind]string{model.Mutex: "KindMutex", model.Write: "KindWrite", model.Read: "KindRead", model.Fair: "KindFair", model.Permit: "KindPermit", model.Red: "KindRedLock"}

// kind writes the fields that say which lock a key is of.
func kind(k *model.Key) []jen.Code {
	fields := []jen.Code{field("Kind", lockrt(kinds[k.Kind]))}
	if k.Kind == model.Permit {
		fields = append(fields, field("Permits", jen.Lit(k.Permits)))
	}
	return fields
}

// allowsNone reports whether there may be no keys, since the lists that give them may be empty.
func allowsNone(l *model.Lock) bool {
	for _, k := range l.Keys {
		if list := listOf(k); list == nil || !list.Empty {
			return false
		}
	}
	return true
}

func field(name string, value *jen.Statement) jen.Code { return jen.Id(name).Op(":").Add(value) }

func wait(d time.Duration) *jen.Statement {
	if d == model.UntilDone {
		return lockrt("UntilDone")
	}
	return duration(d)
}

// duration writes a duration in the largest unit that it is a multiple of.
func duration(d time.Duration) *jen.Statement {
	if d == 0 {
		return jen.Lit(0)
	}
	units := []struct {
		unit time.Duration
		name string
	}{
		{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"},
		{time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}, {time.Nanosecond, "Nanosecond"},
	}
	i := 0
	for d%units[i].unit != 0 {
		i++
	}
	unit := jen.Qual("time", units[i].name)
	if n := d / units[i].unit; n > 1 {
		return jen.Op(strconv.FormatInt(int64(n), 10)).Op("*").Add(unit) // an int may have 32 bits
	}
	return unit
}
